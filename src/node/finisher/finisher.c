/*
 * Finisher: workers -> finisher -> boss.
 *
 * When idle there is no delay: what has ended is written at once, and what ends while the server works makes
 * the next batch.  A finish is fenced by (id, version, incarnation).  One that matches no row is stale:
 * dropped and counted.  One whose reply was lost is looked up in the history before it is tried again.  One
 * whose row another session has locked is put aside and tried again beside the others; one that the server
 * will not take harms no other (write.h), nor does one about which it is silent (aside.c).
 *
 * While the server cannot take anything, everything is kept and tried again: what may be in hand is bounded
 * by what may be claimed, and nothing is claimed meanwhile (health.h).  That holds across a fence too: what
 * has ended has ended, and counts under its old fence as long as no other node has taken the task.
 */
#include "node/finisher/finisher.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "node/boss/boss.h"
#include "node/finisher/private.h"

#define LOCKED_MAX 32       /* of these at once: each costs a moment */
#define STALE_US   US_PER_S /* between lines of the log */

/* Writes what was kept, then what has ended, until the server refuses. */
static void
finish_chain(struct finisher *s, struct run *chain)
{
	struct run *rest;
	struct err err = {0};
	size_t n;

	waiting_add(&s->kept, chain);
	if (clock_mono_us() < s->kept.next_us)
		return;
	rest = waiting_take(&s->kept);
	while ((n = finisher_take(s, &rest, FINISH_MAX)) > 0) {
		struct offer offer = {.alone = n == 1 && rest == NULL};
		enum rc rc = finisher_batch(s, n, offer, &err);

		finisher_settle(s, n, offer, rc, &err);
		finisher_put_aside(s);
		if (rc != RC_OK && (!err_is_silence(rc, &err) || s->kept.first != NULL))
			break;
	}
	waiting_add(&s->kept, rest);
}

/* Tries only a few of those set aside, so that what has ended meanwhile need not wait long for its turn; if
 * these are free again the next few follow soon. */
static void
retry_locked(struct finisher *s)
{
	const struct offer offer = {.aside = true};
	struct run *rest;
	struct err err = {0};
	enum rc rc;
	size_t n;

	if (s->locked.first == NULL || clock_mono_us() < s->locked.next_us)
		return;
	rest = waiting_take(&s->locked);
	n = finisher_take(s, &rest, LOCKED_MAX);
	waiting_add(&s->locked, rest);
	rc = finisher_batch(s, n, offer, &err);
	s->locked.next_us = finisher_settle(s, n, offer, rc, &err) == 0 ? 0 : clock_mono_us() + LOCKED_US;
	finisher_put_aside(s);
	if (rc != RC_OK && err.sqlstate[0] == '\0') /* no connection */
		s->locked.next_us = clock_mono_us() + backoff_next_us(&s->backoff);
}

static int64_t
next_round(const struct finisher *s)
{
	int64_t until = s->locked.first == NULL ? CLOCK_NEVER : s->locked.next_us;

	if (s->aside == NULL && finisher_sift_next(s) < until)
		until = finisher_sift_next(s);
	if (s->kept.first != NULL && s->kept.next_us < until)
		until = s->kept.next_us;
	if (s->stale.count > 0 && s->stale.next_us < until)
		until = s->stale.next_us;
	return until;
}

static void
drop(struct finisher *s, struct run *chain)
{
	struct run *mine = NULL, *r;

	while ((r = chain) != NULL) {
		chain = run_next(r);
		hold_keep(r->hold);
		if (r->copy)
			run_free(r);
		else
			mine = run_chain(r, mine);
	}
	boss_settled(s->node->boss, mine);
}

/* If there is something, and it is time. */
static void
say_stale(struct finisher *s)
{
	int64_t now = clock_mono_us();

	if (s->stale.count == 0 || now < s->stale.next_us)
		return;
	log_warn("stale_finish", "count=%" PRIu64 " task=%" PRId64 " hint=\"%s\"", s->stale.count,
	    s->stale.id,
	    "another node has the task now, or it was changed or deleted; these results changed nothing");
	s->stale.count = 0;
	s->stale.next_us = now + STALE_US;
}

bool
finisher_round(struct finisher *s)
{
	struct mail *m = NULL;
	int64_t until = batch_wait_us(s->db, s->used_us, next_round(s));
	enum rc rc = mailbox_pop_all_until(s->queue, until, &m);
	struct run *chain = rc == RC_OK && m != NULL ? run_of(m) : NULL;

	ASSERT_MINE(&s->only);
	if (rc == RC_CLOSED)
		return false;
	if (m != NULL || next_round(s) != CLOCK_NEVER)
		s->used_us = clock_mono_us();
	if (m == NULL && s->aside != NULL && atomic_load(&s->node->planned))
		(void)batch_get_ready(s->store, s->db, &s->used_us);
	batch_close_idle(s->db, s->used_us);
	if (s->aside == NULL)
		finisher_sift(s, chain);
	else
		finish_chain(s, chain);
	retry_locked(s);
	if (s->aside != NULL)
		boss_ends_locked(s->node->boss,
		    s->locked.count + (s->trial ? s->kept.count : 0) + atomic_load(&s->aside->n_held));
	say_stale(s);
	return true;
}

THREAD_OF_ROUNDS(finisher_main, struct finisher, finisher_round)

static struct finisher *
create(struct node *n, struct mailbox *queue, struct finisher *aside)
{
	struct finisher *s = xcalloc(1, sizeof *s);

	s->node = n;
	s->queue = queue;
	s->aside = aside;
	s->store = n->store;
	s->db = node_db(n, aside == NULL ? "finish aside" : "finish");
	s->writer = (struct finish_writer){.store = s->store, .db = s->db};
	s->most = FINISH_MAX;
	s->used_us = clock_mono_us();
	backoff_init(&s->backoff, 20 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
	return s;
}

struct finisher *
finisher_create(struct node *n)
{
	return create(n, n->finish_queue, create(n, mailbox_create(), NULL));
}

struct finisher *
finisher_aside(struct finisher *s)
{
	return s->aside;
}

void
finisher_start(struct finisher *s)
{
	thread_start(&s->thread, "finisher", finisher_main, s);
	thread_start(&s->aside->thread, "finisher", finisher_main, s->aside);
}

void
finisher_stop(struct finisher *s)
{
	thread_join(s->thread);
	one_thread_leave(&s->only);
	mailbox_close(s->aside->queue);
	thread_join(s->aside->thread);
	one_thread_leave(&s->aside->only);
}

static void
destroy(struct finisher *s)
{
	/* Only when the node must stop at once: others find these runs by our silence. */
	drop(s, waiting_take(&s->locked));
	drop(s, waiting_take(&s->kept));
	drop(s, waiting_take(&s->mute));
	db_destroy(&s->db);
	free(s);
}

void
finisher_destroy(struct finisher **f)
{
	struct finisher *s = *f;
	struct mail *m = NULL;

	if (s == NULL)
		return;
	if (mailbox_pop_all_until(s->aside->queue, 0, &m) == RC_OK)
		drop(s, run_of(m));
	mailbox_destroy(&s->aside->queue);
	destroy(s->aside);
	destroy(s);
	*f = NULL;
}
