/*
 * Starter: boss -> starter -> workers.
 *
 * A run that the database confirms goes to the workers.  One that it does not (edited, paused, deleted, taken
 * over, not due by the database's clock) is handed back, which is fenced, so that it touches nothing that is
 * not ours any more, and returns to the boss. A start whose reply was lost is looked up: what is running
 * under our fence was started by us.
 *
 * A row that somebody has locked holds up no other, and no worker: its run returns to the boss as well, and a
 * copy stays here until the row could be handed back.
 */
#include "node/starter.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "node/batch.h"
#include "node/boss.h"
#include "node/context.h"

#define START_MAX    512
#define LOCKED_US    (250 * US_PER_MS) /* between tries to hand back what is locked */
#define CONTENDED_US (2 * US_PER_S)    /* so long after a locked row no statement waits for the next one */

struct starter {
	struct node *node; /* borrowed */
	pthread_t thread;
	/* owned by the thread */
	struct db *db;
	struct backoff backoff;
	struct run *batch[START_MAX];
	struct run *locked; /* chain of copies, to be handed back when somebody lets go of their rows */
	int64_t next_locked_us, contended_until_us;
};

/* Starts batch[0..n) (one incarnation, sorted by id), trying until it is done, or hopeless because we were
 * fenced meanwhile. */
static void
start_batch(struct starter *s, int64_t incarnation, size_t n)
{
	struct err err = {0};
	bool unknown = false;

	while (node_may_act(s->node, incarnation, clock_boot_us())) {
		enum rc rc = unknown ? store_started(s->db, incarnation, s->batch, n, &err)
				     : store_start(s->db, incarnation, s->batch, n, &err);

		if (rc == RC_OK) {
			backoff_reset(&s->backoff);
			return;
		}
		unknown = unknown || rc == RC_UNKNOWN;
		if (!batch_pause(&s->backoff, &s->node->hurry, rc, "start", &err))
			return;
	}
}

/* Best effort: what cannot be handed back now is found by the leak repair, or by others when we are gone. */
static void
release_batch(struct starter *s, int64_t incarnation, struct run **runs, size_t n)
{
	struct err err = {0};
	int64_t released;

	for (int tries = 0; n > 0 && tries < 3 && node_may_act(s->node, incarnation, clock_boot_us());
	     tries++) {
		enum rc rc = store_release(s->db, incarnation, runs, n, &released, &err);

		if (rc == RC_OK) {
			log_debug("released", "tasks=%zu back=%lld", n, (long long)released);
			return;
		}
		if (!batch_pause(&s->backoff, &s->node->hurry, rc, "release", &err))
			return;
	}
}

/* batch[0..n) is sorted by id.  Those to be started stay in front. */
static size_t
split_releases(struct run **batch, size_t n, struct run **rest)
{
	size_t keep = 0, gone = 0;

	for (size_t i = 0; i < n; i++) {
		if (batch[i]->release)
			rest[gone++] = batch[i];
		else
			batch[keep++] = batch[i];
	}
	return keep;
}

/* Copies of what could not be handed back: the runs themselves return to the boss. */
static void
keep_locked(struct starter *s, struct run *const *runs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct run *copy;

		if (!runs[i]->locked)
			continue;
		log_debug("locked", "task=%lld", (long long)runs[i]->id);
		copy = run_create(runs[i]->id, runs[i]->version, runs[i]->incarnation);
		copy->locked = true;
		s->locked = run_chain(copy, s->locked);
		s->contended_until_us = clock_mono_us() + CONTENDED_US;
	}
}

static void
retry_locked(struct starter *s)
{
	struct run *chain = s->locked;
	size_t n;

	if (chain == NULL || clock_mono_us() < s->next_locked_us)
		return;
	s->locked = NULL;
	while ((n = batch_take(&chain, s->batch, START_MAX)) > 0) {
		int64_t incarnation = s->batch[0]->incarnation;

		release_batch(s, incarnation, s->batch, n);
		for (size_t i = 0; i < n; i++) {
			if (s->batch[i]->locked && node_may_act(s->node, incarnation, clock_boot_us()))
				s->locked = run_chain(s->batch[i], s->locked);
			else
				run_free(s->batch[i]);
		}
	}
	s->next_locked_us = clock_mono_us() + LOCKED_US;
}

static void
work(struct starter *s, size_t n)
{
	struct run *rest[START_MAX], *back = NULL;
	int64_t incarnation = s->batch[0]->incarnation;
	size_t n_start = split_releases(s->batch, n, rest), n_rest = n - n_start;

	s->batch[0]->locked = clock_mono_us() < s->contended_until_us;
	if (n_start > 0)
		start_batch(s, incarnation, n_start);
	for (size_t i = 0; i < n_start; i++) {
		if (s->batch[i]->started) {
			s->batch[i]->unit = NULL;
			mailbox_push(s->node->run_queue, &s->batch[i]->note.mail);
		} else {
			rest[n_rest++] = s->batch[i];
		}
	}
	batch_sort(rest, n_rest);
	release_batch(s, incarnation, rest, n_rest);
	keep_locked(s, rest, n_rest);
	for (size_t i = 0; i < n_rest; i++)
		back = run_chain(rest[i], back);
	boss_settled(s->node->boss, back);
}

static void *
starter_main(void *arg)
{
	struct starter *s = arg;

	for (;;) {
		struct mail *m = NULL;
		int64_t until = s->locked == NULL ? CLOCK_NEVER : s->next_locked_us;
		enum rc rc = mailbox_pop_all_until(s->node->start_queue, until, &m);
		struct run *chain = rc == RC_OK && m != NULL ? run_of(m) : NULL;
		size_t n;

		if (rc == RC_CLOSED)
			break;
		while ((n = batch_take(&chain, s->batch, START_MAX)) > 0)
			work(s, n);
		retry_locked(s);
	}
	/* Others recover these when this node has left. */
	while (s->locked != NULL) {
		struct run *r = s->locked;

		s->locked = run_next(r);
		run_free(r);
	}
	db_destroy(&s->db);
	return NULL;
}

struct starter *
starter_start(struct node *n)
{
	struct starter *s = xcalloc(1, sizeof *s);

	s->node = n;
	s->db = node_db(n, "start");
	backoff_init(&s->backoff, 20 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
	thread_start(&s->thread, "starter", starter_main, s);
	return s;
}

void
starter_stop(struct starter **s)
{
	thread_join((*s)->thread);
	free(*s);
	*s = NULL;
}
