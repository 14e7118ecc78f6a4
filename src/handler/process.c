/*
 * One handler process, from its start until nothing of it is left.
 *
 *     NONE -> STARTING -- hello --> READY -- max_tasks, quit --> RETIRING -- idle: told to end --> ENDING
 *                 \___________________\____ fault, its own end ________________________________/
 *     ENDING -- the run socket is at its end --> NONE;  without the keeper gone: LOST -- buried --> NONE
 *
 * The tasks it holds are over when nothing of it is left, and not before, so that nothing runs twice at a
 * time.  What it wrote until then counts.
 */
#include "handler/pool_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"

#define LEAVE_US   (5 * US_PER_S) /* to end when it is told to */
#define UNREAD_MAX (256 * 1024)   /* bytes that it has not read */

void
process_init(struct process *p, struct pool *pool)
{
	*p = (struct process){.pool = pool, .run = {.fd = -1}, .talk_fd = -1, .out_fd = -1};
	TAILQ_INIT(&p->flights);
}

void
process_close(struct process *p)
{
	close_fd(&p->talk_fd);
	close_fd(&p->out_fd);
	close_fd(&p->run.fd);
	buf_fini(&p->in);
	buf_fini(&p->out);
	buf_fini(&p->line);
	p->state = PROCESS_NONE;
}

/* On RC_OK the process has its three descriptors. */
static enum rc
spawn(struct process *p, const char *const *env, struct err *err)
{
	const struct pool_setup *set = p->pool->set;
	struct keeper_spec spec = {.argv = set->argv,
	    .env = env,
	    .cwd = set->around.cwd,
	    .umask = set->around.umask,
	    .user = set->around.user,
	    .nice = set->around.nice,
	    .limits = set->around.limits,
	    .stdin_fd = -1,
	    .talks = true};
	int talk[2] = {-1, -1};
	enum rc rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, talk) != 0 ||
	    fcntl(talk[0], F_SETFL, O_NONBLOCK) != 0)
		rc = err_set(err, RC_AGAIN, "could not make a socket for it: %s", strerrordesc_np(errno));
	else {
		spec.script_fd = talk[1];
		rc = child_start(p->pool->all->host.keeper, &spec, &p->run, &p->out_fd, err);
	}
	close_fd(&talk[1]);
	if (rc != RC_OK)
		close_fd(&talk[0]);
	p->talk_fd = talk[0];
	return rc;
}

/* What the section says, and on top of that what the process needs to talk to us. */
static enum rc
spawn_with_env(struct process *p, struct err *err)
{
	const struct texts *base = &p->pool->set->around.env;
	struct texts env = {0};
	enum rc rc;

	for (size_t i = 0; i < base->n; i++)
		texts_add(&env, base->item[i]);
	texts_set(&env, "PGRAB_POOL=%s", p->pool->set->name);
	texts_set(&env, "PGRAB_HANDLER_PROTOCOL=1 %d", PROTOCOL_VERSION);
	texts_set(&env, "PGRAB_HANDLER_IN=%d", KEEPER_SCRIPT_FD);
	texts_set(&env, "PGRAB_HANDLER_OUT=%d", KEEPER_ANSWER_FD);
	rc = spawn(p, (const char *const *)env.item, err);
	texts_fini(&env);
	return rc;
}

void
process_start(struct process *p, int64_t now)
{
	struct pool *pool = p->pool;
	struct err err = {0};

	process_init(p, pool);
	p->cell = p == cell_of(pool);
	p->renewal = pool->renewal;
	if (spawn_with_env(p, &err) != RC_OK) {
		pool_went_down(pool, p, err.text, false, now);
		return;
	}
	p->state = PROCESS_STARTING;
	p->until_us = now + pool->set->start_timeout_us;
}

void
process_leave_ready(struct process *p, int kept)
{
	if (p->state != PROCESS_READY || p->cell)
		return;
	p->kept = kept;
	p->pool->status.up--;
	p->pool->status.slots -= p->at_once;
	p->pool->all->host.slots(p->pool->all->host.ctx, p->pool->number, kept - p->at_once);
}

void
process_stop_now(struct process *p)
{
	if (!p->stopping)
		keeper_stop_run(&p->run);
	p->stopping = true;
}

void
process_begin_ending(struct process *p, int64_t until_us)
{
	process_leave_ready(p, 0);
	p->state = PROCESS_ENDING;
	p->until_us = until_us;
}

void
process_fault(struct process *p, const char *fmt, ...)
{
	va_list ap;

	if (p->state == PROCESS_NONE || p->state == PROCESS_LOST || p->stopping)
		return;
	va_start(ap, fmt);
	vsnprintf(p->fault, sizeof p->fault, fmt, ap);
	va_end(ap);
	process_begin_ending(p, 0);
	process_stop_now(p);
}

static int
slots_of_flights(const struct process *p)
{
	const struct flight *f;
	int n = 0;

	TAILQ_FOREACH (f, &p->flights, link)
		n += (int)f->run->need.slots;
	return n;
}

void
process_retire(struct process *p)
{
	if (p->state == PROCESS_STARTING) {
		p->asked = true;
		process_begin_ending(p, 0);
		process_stop_now(p);
	} else if (p->state == PROCESS_READY) {
		process_leave_ready(p, slots_of_flights(p));
		p->state = PROCESS_RETIRING;
	}
	if (p->state != PROCESS_RETIRING || p->n_flights > 0)
		return;
	protocol_end(&p->out);
	p->asked = true;
	process_begin_ending(p, clock_mono_us() + LEAVE_US);
	process_write(p);
}

/* One that does not read gets no more: it may be frozen, and others are free. */
bool
process_room(const struct process *p)
{
	return p->state == PROCESS_READY && p->n_flights < p->at_once && p->out.len < UNREAD_MAX;
}

/* What does not fit now goes when the socket has room. */
void
process_write(struct process *p)
{
	size_t done = 0;
	ssize_t n;

	while (p->talk_fd >= 0 && done < p->out.len) {
		n = send(p->talk_fd, p->out.data + done, p->out.len - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full; or it is gone, which reading will find */
		done += (size_t)n;
	}
	buf_drop(&p->out, done);
}

void
process_give(struct process *p, struct run *r)
{
	struct flight *f = xcalloc(1, sizeof *f);
	char fire_at[RUN_FIRE_AT_MAX], fence[RUN_FENCE_MAX];

	if (p->n_flights == 0)
		p->end.tail_len = 0; /* what another task printed is not quoted in the error of this one */

	f->run = r;
	f->number = ++p->number;
	TAILQ_INSERT_TAIL(&p->flights, f, link);
	p->n_flights++;
	run_fire_at(r, fire_at);
	run_fence(r, fence);
	protocol_task(&p->out, f->number, r, fire_at, fence);
}

void
process_look_at_stops(struct process *p, int64_t now)
{
	const struct pool_host *host = &p->pool->all->host;
	struct flight *f;
	bool told = false;

	TAILQ_FOREACH (f, &p->flights, link) {
		if (f->stop != PGRAB_STOP_NONE ||
		    (f->stop = host->stop(host->ctx, f->run)) == PGRAB_STOP_NONE)
			continue;
		/* Without a lease the keeper ends the process, and asks nobody. */
		if (f->stop == PGRAB_STOP_FENCED ||
		    (p->state != PROCESS_READY && p->state != PROCESS_RETIRING))
			continue;
		f->told_us = now;
		told = true;
		protocol_stop(&p->out, f->number, f->stop);
		host->waits_for(host->ctx, f->run, "its handler, which was asked to stop");
	}
	if (told) /* does it read at all? */
		process_ping(p, now);
	process_write(p);
}
