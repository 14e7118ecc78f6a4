/*
 * Starter: boss -> starter -> workers.
 *
 * A run that the database confirms goes to the workers.  One that it does not (edited, paused, deleted, taken
 * over, not due by the database's clock) is handed back, which is fenced, so that it touches nothing that is
 * no longer ours, and returns to the boss.  A start whose reply was lost is looked up: what is running under
 * our fence was started by us.  Not so for an at_most_once task: what the database says now may be gone when
 * another server takes over.  Such a run is recorded as lost, and never executed.
 *
 * When there is no connection for a while, what is here goes back through the heartbeat, which has one for as
 * long as this node may hold anything; and the node claims nothing until starts are possible (health.h).
 *
 * A row that another session has locked holds up neither others nor a worker: its run returns to the boss as
 * well, and a copy stays here until the row can be handed back.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "db/fault.h"
#include "node/batch.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/crews/crews.h"
#include "node/recover/recover.h"
#include "node/starter/private.h"

#define UNSURE_US (10 * US_PER_S) /* for a lookup of starts whose answer was lost */
#define READY_US  (US_PER_S / 2)  /* for a start of nothing */

/* What may have been started and will not be executed: its loss is recorded, by the finisher,
 * which is fenced as always. */
static void
give_up(struct starter *s, struct run **runs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct run *lost;

		if (runs[i]->started) /* by a statement before, which was answered */
			continue;
		lost = run_copy(runs[i]);
		lost->end.outcome = OUTCOME_LOST;
		lost->begun_us = lost->end.at_us = clock_mono_us();
		lost->end.error = xstrdup("the answer to its start was lost, so it was not executed");
		lost->copy = true;
		mailbox_push(s->node->finish_queue, &lost->note.mail);
	}
}

/* Their start may have reached the commit, and be seen only when they have been handed back: then the rows of
 * their holds go only when no task is held, and the leak repair finds them. */
static void
doubt_unfound(struct run *const *batch, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!batch[i]->started)
			hold_doubt(batch[i]->hold);
	}
}

static bool
is_once(const struct run *r, void *ctx)
{
	(void)ctx;
	return r->once;
}

static bool
is_started(const struct run *r, void *ctx)
{
	(void)ctx;
	return r->started;
}

static bool
is_doubted(const struct run *r, void *doubts)
{
	return doubts_has(doubts, r->id);
}

/* Those that are so go to the end, in their order.  Returns how many are before them. */
static size_t
split_last(struct run **batch, size_t n, bool (*is)(const struct run *, void *), void *ctx)
{
	struct run *last[START_MAX];
	size_t kept = 0, n_last = 0;

	for (size_t i = 0; i < n; i++) {
		if (is(batch[i], ctx))
			last[n_last++] = batch[i];
		else
			batch[kept++] = batch[i];
	}
	for (size_t i = 0; i < n_last; i++)
		batch[kept + i] = last[i];
	return kept;
}

static bool
any_started(struct run *const *batch, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (batch[i]->started)
			return true;
	}
	return false;
}

/* Starts batch[0..n) (one incarnation, sorted by id), trying until it is done or hopeless (fenced meanwhile,
 * or no connection).  One row that the server cannot take harms no other. */
static enum sift
start_batch(struct starter *s, int64_t incarnation, struct run **batch, size_t n, int64_t within_us)
{
	struct err err = {0};
	bool unknown = false, silent = false;
	int64_t begun_us = clock_mono_us();

	while (node_may_act(s->node, incarnation, clock_boot_us())) {
		const struct holder who = {.incarnation = incarnation,
		    .contended = clock_mono_us() < s->contended_until_us,
		    .within_us = within_us};
		enum rc rc = unknown ? s->store->started(s->db, incarnation, batch, n, &err)
				     : s->store->start(s->db, &who, batch, n, &err);

		if (rc == RC_OK) {
			starter_well(s);
			if (unknown)
				doubt_unfound(batch, n);
			return silent && !any_started(batch, n) ? SIFT_SILENT : SIFT_ANSWERED;
		}
		if (fault_is_of_row(rc, &err)) {
			for (size_t i = 0; n > 1 && i < n; i++)
				(void)start_batch(s, incarnation, batch + i, 1, within_us);
			if (n == 1)
				doubts_refused(&s->node->doubts, batch[0]->id, &err);
			return SIFT_ANSWERED;
		}
		silent = silent || (!unknown && err_is_silence(rc, &err));
		unknown = unknown || rc == RC_UNKNOWN;
		if (!starter_again(s, "start", rc, begun_us + (unknown ? UNSURE_US : PATIENCE_US), &err))
			break;
	}
	if (unknown)
		give_up(s, batch, n);
	return SIFT_STOP;
}

static enum sift
start_part(void *ctx, size_t from, size_t n, int64_t within_us)
{
	struct starter *s = ctx;

	return start_batch(s, s->batch[0]->incarnation, s->batch + from, n, within_us);
}

static int64_t
part_id(void *ctx, size_t i)
{
	const struct starter *s = ctx;

	return s->batch[i]->id;
}

/* batch[0..n): those that are doubted come last, each by itself. */
static void
start_sifted(struct starter *s, size_t n)
{
	const struct sifted what = {.try = start_part, .id = part_id, .ctx = s};
	size_t calm = split_last(s->batch, n, is_doubted, &s->node->doubts);

	if (calm > 0)
		sift(&s->sifter, &what, calm);
	for (size_t i = calm; i < n; i++)
		sift_alone(&s->sifter, &what, i);
	for (size_t i = 0; i < n; i++) {
		if (s->batch[i]->started)
			doubts_drop(&s->node->doubts, s->batch[i]->id);
	}
}

/* The same for at_most_once tasks. */
static void
start_once(struct starter *s, int64_t incarnation, struct run **batch, size_t n)
{
	struct err err = {0};
	int64_t until_us = clock_mono_us() + PATIENCE_US;
	bool durable = true;

	while (node_may_act(s->node, incarnation, clock_boot_us())) {
		enum rc rc = s->store->start_once(
		    s->db, incarnation, s->node->set->at_most_once_async, batch, n, &durable, &err);

		if (rc == RC_OK) {
			starter_well(s);
			if (!durable && atomic_exchange(&s->node->durable, false))
				log_warn(
				    "durable", "at_most_once=\"left to others\" reason=\"%s\"", err.text);
			return;
		}
		if (rc == RC_UNKNOWN) {
			for (size_t i = 0; i < n; i++)
				batch[i]->started = false;
			log_warn("start_unknown", "tasks=%zu error=\"%s\"", n, err.text);
			give_up(s, batch, n);
			return;
		}
		if (fault_is_of_row(rc, &err)) {
			for (size_t i = 0; n > 1 && i < n; i++)
				start_once(s, incarnation, batch + i, 1);
			if (n == 1)
				doubts_refused(&s->node->doubts, batch[0]->id, &err);
			return;
		}
		if (!starter_again(s, "start", rc, until_us, &err))
			return;
	}
}

/* batch[0..n) is sorted by id.  Those to be started stay in front. */
static size_t
split_releases(struct run **batch, size_t n, struct run **rest)
{
	size_t keep = 0, gone = 0;

	for (size_t i = 0; i < n; i++) {
		if (batch[i]->place.release)
			rest[gone++] = batch[i];
		else
			batch[keep++] = batch[i];
	}
	return keep;
}

static void
start(struct starter *s, int64_t incarnation, size_t n)
{
	size_t plain = split_last(s->batch, n, is_once, NULL);

	if (plain > 0)
		start_sifted(s, plain);
	if (plain < n)
		start_once(s, incarnation, s->batch + plain, n - plain);
}

static void
hand_on(struct node *n, struct run *r)
{
	if (r->crew > 0)
		crews_take(n, r);
	else
		mailbox_push(n->run_queue, &r->note.mail);
}

static void
work(struct starter *s, size_t n)
{
	struct run *rest[START_MAX], *back = NULL;
	int64_t incarnation = s->batch[0]->incarnation;
	size_t n_start = split_releases(s->batch, n, rest), n_rest = n - n_start, n_new;
	bool line = false;

	/* Those that their claim has started lack only their secrets. */
	n_new = split_last(s->batch, n_start, is_started, NULL);
	if (n_new > 0)
		start(s, incarnation, n_new);
	for (size_t i = 0; i < n_new; i++) {
		if (s->batch[i]->started)
			crews_args(s->node, s->batch[i]);
	}
	starter_secrets(s, incarnation, s->batch, n_start);
	for (size_t i = 0; i < n_start; i++) {
		if (s->batch[i]->started) {
			s->batch[i]->place.unit = NULL;
			hand_on(s->node, s->batch[i]);
		} else {
			line = line || s->batch[i]->limited;
			rest[n_rest++] = s->batch[i];
		}
	}
	if (line)
		recover_line(s->node->recover);
	batch_sort(rest, n_rest);
	starter_release(s, incarnation, rest, n_rest);
	starter_keep_locked(s, rest, n_rest);
	for (size_t i = 0; i < n_rest; i++)
		back = run_chain(rest[i], back);
	boss_settled(s->node->boss, back);
}

/* The plan of a first start takes longer than a new connection, so that is made, too.  Twice: a text that is
 * sent for the first time has no name, and its plan is not kept.  Not while something waits to be started. */
static void
get_ready(struct starter *s)
{
	const struct holder nobody = {.within_us = READY_US};
	struct err err;
	bool well = batch_get_ready(s->store, s->db, &s->used_us);

	for (int i = 0; i < 2 && well && mailbox_count(s->node->start_queue) == 0; i++)
		well = s->store->start(s->db, &nobody, NULL, 0, &err) == RC_OK;
}

static int64_t
next_round(const struct starter *s)
{
	int64_t until = s->locked == NULL ? CLOCK_NEVER : s->next_locked_us;

	if (!health_part_well(s->node, HEALTH_START) && s->next_probe_us < until)
		until = s->next_probe_us;
	return until;
}

bool
starter_round(struct starter *s)
{
	struct mail *m = NULL;
	int64_t until = batch_wait_us(s->db, s->used_us, next_round(s));
	enum rc rc = mailbox_pop_all_until(s->node->start_queue, until, &m);
	struct run *chain = rc == RC_OK && m != NULL ? run_of(m) : NULL;
	size_t n;

	ASSERT_MINE(&s->only);
	if (rc == RC_CLOSED)
		return false;
	if (m != NULL || next_round(s) != CLOCK_NEVER)
		s->used_us = clock_mono_us();
	if (m == NULL && atomic_load(&s->node->planned))
		get_ready(s);
	batch_close_idle(s->db, s->used_us);
	while ((n = batch_take(&chain, s->batch, START_MAX)) > 0)
		work(s, n);
	starter_retry_locked(s);
	starter_probe(s);
	return true;
}

THREAD_OF_ROUNDS(starter_main, struct starter, starter_round)

struct starter *
starter_create(struct node *n)
{
	struct starter *s = xcalloc(1, sizeof *s);

	s->node = n;
	s->store = n->store;
	s->db = node_db(n, "start");
	s->sifter.doubts = &n->doubts;
	s->used_us = clock_mono_us();
	backoff_init(&s->backoff, 20 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
	return s;
}

void
starter_start(struct starter *s)
{
	thread_start(&s->thread, "starter", starter_main, s);
}

void
starter_stop(struct starter *s)
{
	thread_join(s->thread);
	one_thread_leave(&s->only);
}

void
starter_destroy(struct starter **s)
{
	if (*s == NULL)
		return;
	/* Others recover these when this node has left. */
	run_leave_all((*s)->locked);
	db_destroy(&(*s)->db);
	free(*s);
	*s = NULL;
}
