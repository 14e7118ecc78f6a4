/* One pool: its processes and its queue. */
#include "handler/pool_priv.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "exec/result.h"

#define SURPLUS_US (250 * US_PER_MS) /* a started run waits no longer than this for a process */
#define CELL_US    (10 * US_PER_S)   /* the cell stays this long after the last suspect came */
#define AGAIN_US   (200 * US_PER_MS) /* after a process that died with tasks */
#define REFUSED_US (100 * US_PER_MS) /* until we ask again whether a process may be started */

static void
take_schemas(struct pool *pool, struct message *hello)
{
	for (size_t i = 0; pool->set->kinds[i] != NULL; i++) {
		for (size_t k = 0; k < hello->n_kinds; k++) {
			char *old = pool->schemas[i];

			if (strcmp(hello->kind[k].kind, pool->set->kinds[i]) != 0)
				continue;
			pool->schemas[i] = hello->kind[k].schema;
			hello->kind[k].schema = old; /* freed with the message */
		}
	}
}

void
pool_came_up(struct pool *pool, struct process *p, struct message *hello)
{
	const struct pool_host *host = &pool->all->host;

	take_schemas(pool, hello);
	free(pool->library);
	pool->library = hello->library;
	hello->library = NULL;
	pool->status.fault[0] = '\0';
	log_info("handler_up", "pool=%s pid=%d at_once=%d", pool->set->name, (int)p->end.pid, p->at_once);
	if (!p->cell) {
		pool->status.up++;
		pool->status.slots += p->at_once;
		host->slots(host->ctx, pool->number, p->at_once);
	}
	host->changed(host->ctx);
}

void
pool_went_down(struct pool *pool, struct process *p, const char *why, bool at_work, int64_t now)
{
	const struct pool_host *host = &pool->all->host;
	AUTO_BUF struct buf command = {0};

	if (why != NULL) {
		for (size_t i = 0; pool->set->argv[i] != NULL && command.len < 200; i++)
			buf_addf(&command, "%s%.200s", i == 0 ? "" : " ", pool->set->argv[i]);
		snprintf(pool->status.fault, sizeof pool->status.fault, "%s: %s", buf_str(&command), why);
		pool->status.lost++;
		/* That a task ends its process, or the end of a lease, says nothing about the next one. */
		pool->next_start_us = now + (at_work ? AGAIN_US : backoff_next_us(&pool->backoff));
		log_warn("handler_lost",
		    "pool=%s pid=%d served=%" PRId64 " again_in_ms=%" PRId64 " error=\"%s\"", pool->set->name,
		    (int)p->end.pid, p->served, (pool->next_start_us - now) / US_PER_MS, pool->status.fault);
	}
	host->changed(host->ctx);
}

void
pool_enqueue(struct pool *pool, struct run *r, int64_t now)
{
	r->begun_us = now; /* it waits since now; set again when it begins */
	if (pool->all->host.stop(pool->all->host.ctx, r) != PGRAB_STOP_NONE)
		pool->all->look_at_stops = true; /* it may have been told to stop before it came here */
	r->note.mail.next = NULL;
	if (pool->last == NULL)
		pool->first = r;
	else
		pool->last->note.mail.next = &r->note.mail;
	pool->last = r;
	pool->waiting++;
}

static void
unlink_after(struct pool *pool, struct run *before, struct run *r)
{
	if (before == NULL)
		pool->first = run_next(r);
	else
		before->note.mail.next = r->note.mail.next;
	if (pool->last == r)
		pool->last = before;
	pool->waiting--;
}

/* A plain list: it is empty except after a death. */
static size_t
find(const struct suspects *s, int64_t id)
{
	size_t i = 0;

	while (i < s->n && s->id[i] != id)
		i++;
	return i;
}

static bool
suspects_have(const struct suspects *s, int64_t id)
{
	return find(s, id) < s->n;
}

void
suspects_add(struct suspects *s, int64_t id)
{
	if (suspects_have(s, id))
		return;
	if (s->id == NULL)
		s->id = xcalloc(SUSPECTS_MAX, sizeof *s->id);
	if (s->n < SUSPECTS_MAX) {
		s->id[s->n++] = id;
		return;
	}
	s->id[s->next] = id;
	s->next = (s->next + 1) % SUSPECTS_MAX;
}

void
suspects_clear(struct suspects *s, int64_t id)
{
	size_t i = find(s, id);

	if (i < s->n)
		s->id[i] = s->id[--s->n];
}

static struct process *
idlest(struct pool *pool)
{
	struct process *best = NULL;

	for (int i = 0; i < pool->n_processes - 1; i++) {
		struct process *p = &pool->process[i];

		if (process_room(p) && (best == NULL || p->n_flights < best->n_flights))
			best = p;
	}
	return best;
}

/* Who could take it now. */
static struct process *
taker(struct pool *pool, const struct run *r, int64_t now)
{
	struct process *cell = cell_of(pool);

	if (!suspects_have(&pool->suspects, r->id))
		return idlest(pool);
	pool->cell_until_us = now + CELL_US;
	return process_room(cell) ? cell : NULL;
}

/* Ends a run that never began: it was stopped, or no process took it. */
static void
turn_away(struct pool *pool, struct run *r, enum pgrab_stop stop)
{
	const struct pool_host *host = &pool->all->host;
	struct pgrab_result result = {.not_started = stop == PGRAB_STOP_NONE};

	result_fail(&result,
	    stop == PGRAB_STOP_NONE ? "no process of [pool %s] was free"
				    : "stopped before a process of [pool %s] had taken it",
	    pool->set->name);
	host->end(host->ctx, r, OUTCOME_NONE, &result);
}

/* Hands out what is due, in the order in which it came: after the first run that finds no process and still
 * has time none need be looked at, unless one was told to stop.  The first suspect keeps its place, so that
 * the cell has work while the others come back.  Returns when to call again. */
int64_t
pool_deal(struct pool *pool, int64_t now)
{
	const struct pool_host *host = &pool->all->host;
	int64_t next = CLOCK_NEVER;
	struct run *before = NULL, *after;
	bool nobody = pool->status.up == 0, line = false;

	for (struct run *r = pool->first; r != NULL; r = after) {
		enum pgrab_stop stop = host->stop(host->ctx, r);
		struct process *p = taker(pool, r, now);
		bool early = r->due_mono_us > now && r->due_mono_us < now + US_PER_S;
		bool next_in_cell = p == NULL && !line && suspects_have(&pool->suspects, r->id);
		int64_t until_us = next_in_cell ? CLOCK_NEVER : r->begun_us + SURPLUS_US;

		after = run_next(r);
		line = line || next_in_cell;
		if (stop != PGRAB_STOP_NONE || (p == NULL && (nobody || now >= until_us))) {
			unlink_after(pool, before, r);
			turn_away(pool, r, stop);
		} else if (p == NULL || early) {
			next = earlier(next, early ? r->due_mono_us : until_us);
			before = r;
			if (p == NULL && pool->suspects.n == 0 && !pool->all->look_at_stops)
				break;
		} else {
			unlink_after(pool, before, r);
			if (host->begin(host->ctx, r))
				process_give(p, r);
		}
	}
	for (int i = 0; i < pool->n_processes; i++)
		process_write(&pool->process[i]);
	return next;
}

/* After a failed attempt processes are started one at a time. */
static bool
trying(const struct pool *pool)
{
	for (int i = 0; i < pool->n_processes; i++) {
		if (pool->process[i].state == PROCESS_STARTING)
			return true;
	}
	return false;
}

bool
pool_has_place(const struct pool *pool)
{
	for (int i = 0; i < pool->n_processes - 1; i++) {
		if (pool->process[i].state == PROCESS_NONE)
			return true;
	}
	return false;
}

/* One that takes nothing more, but still ends what it has, leaves its part to a successor. */
static bool
complete(const struct pool *pool)
{
	int n = 0;

	for (int i = 0; i < pool->n_processes - 1; i++) {
		enum process_state state = pool->process[i].state;

		n += state != PROCESS_NONE && state != PROCESS_RETIRING;
	}
	return n >= pool->set->processes;
}

static bool
wanted(const struct pool *pool, const struct process *p, int64_t now)
{
	return p->state == PROCESS_NONE &&
	       (p == cell_of(pool) ? now < pool->cell_until_us : !complete(pool)) &&
	       (pool->backoff.tries == 0 || !trying(pool));
}

int64_t
pool_fill(struct pool *pool, int64_t now)
{
	const struct pool_host *host = &pool->all->host;
	int64_t next = CLOCK_NEVER;

	for (int i = 0; i < pool->n_processes && !pool->all->quitting; i++) {
		struct process *p = &pool->process[i];

		if (!wanted(pool, p, now))
			continue;
		if (now < pool->next_start_us) {
			next = earlier(next, pool->next_start_us);
		} else if (!host->may_start(host->ctx)) {
			next = earlier(next, now + REFUSED_US);
		} else {
			process_start(p, now);
			next = p->state == PROCESS_NONE ? earlier(next, pool->next_start_us) : next;
		}
	}
	return next;
}

/* One at a time: until its successor has said hello the others go on, with the old program if the new one
 * does not start. */
void
pool_renew(struct pool *pool)
{
	struct process *old = NULL;

	for (int i = 0; i < pool->n_processes; i++) {
		struct process *p = &pool->process[i];

		if (p->state == PROCESS_NONE && (p == cell_of(pool) || complete(pool)))
			continue;
		if (p->state != PROCESS_READY)
			return;
		if (p->renewal < pool->renewal)
			old = p;
	}
	if (old != NULL) {
		log_info("handler_renewed", "pool=%s pid=%d served=%" PRId64, pool->set->name,
		    (int)old->end.pid, old->served);
		process_retire(old);
	}
}
