/*
 * Finisher: workers -> finisher -> boss.
 *
 * When idle there is no delay: what has ended is written at once, and what ends while the server works makes
 * the next batch.  A finish is fenced by (id, version, incarnation).  One that matches no row is stale:
 * dropped and counted.  One whose reply was lost is looked up in the history before it is tried again.  One
 * whose row another session has locked is put aside and tried again beside the others; one that the server
 * will not take harms no other (finish_write.h).
 *
 * While the server cannot take anything, everything is kept and tried again: what may be in hand is bounded
 * by what may be claimed, and nothing is claimed meanwhile (health.h).  That holds across a fence too: what
 * has ended has ended, and counts under its old fence as long as no other node has taken the task.
 */
#include "node/finisher.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "db/fault.h"
#include "node/batch.h"
#include "node/boss.h"
#include "node/context.h"
#include "node/finish_write.h"
#include "node/stale.h"

#define FINISH_MAX   1000
#define FINISH_BYTES (4 * 1024 * 1024) /* of output in one statement */
#define LOCKED_MAX   32                /* of these at once: each costs a moment */
#define ILL_TRIES    2                 /* vain tries that make it a fault, not just a lost connection */
#define TRIAL_MAX    64 /* if this many in a row are refused as bad rows are, it is not the rows */

struct finisher {
	struct node *node; /* borrowed */
	pthread_t thread;
	/* owned by the thread */
	struct owner owner;
	const struct store *store;
	struct db *db;
	int64_t used_us; /* when the connection last had something to do */
	struct backoff backoff;
	struct finish_writer writer;
	struct run *batch[FINISH_MAX];
	struct finish finish[FINISH_MAX];
	struct finish *part[FINISH_MAX];
	struct waiting locked; /* another session has their rows locked, or they alone are refused */
	struct waiting kept;   /* the server could not take them */
	int64_t contended_until_us;
	bool trial; /* what is kept may be bad rows: others are claimed, to see whether they pass */
	struct stale stale;
};

enum part { PART_NOT_STARTED, PART_ENDED, PART__COUNT };

static bool
to_be_written(const struct run *r)
{
	return r->end.written == WRITTEN_NOT || r->end.written == WRITTEN_MAYBE;
}

static enum part
part_of(const struct run *r)
{
	return r->end.outcome == OUTCOME_NOT_STARTED ? PART_NOT_STARTED : PART_ENDED;
}

static void
fill(struct finish *f, const struct run *r, int64_t now)
{
	*f = (struct finish){.id = r->id,
	    .version = r->version,
	    .incarnation = r->incarnation,
	    .begun_ago_us = now - r->begun_us,
	    .ended_ago_us = now - r->end.at_us,
	    .outcome = r->end.outcome,
	    .has_exit_code = r->end.has_exit_code,
	    .exit_code = r->end.exit_code,
	    .error = r->end.error,
	    .output = r->end.output,
	    .output_truncated = r->end.output_truncated,
	    .retry_us = r->end.retry_us};
}

/* Those of f[0..n) that are still to be done, compacted in order. */
static size_t
unapplied(struct finish **f, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		if (!f[i]->applied && !f[i]->locked && !f[i]->refused)
			f[left++] = f[i];
	}
	return left;
}

static struct run *
run_of_finish(struct finisher *s, const struct finish *f)
{
	return s->batch[f - s->finish];
}

/* After a lost reply some may be in the database: marks these as applied and takes them out of f. */
static enum rc
look_up(struct finisher *s, struct finish **f, size_t *n, struct err *err)
{
	bool unsure = false;
	enum rc rc;

	for (size_t i = 0; i < *n; i++)
		unsure = unsure || run_of_finish(s, f[i])->end.written == WRITTEN_MAYBE;
	if (!unsure)
		return RC_OK;
	rc = s->store->recorded(s->db, f, *n, err);
	*n = unapplied(f, *n);
	return rc;
}

/* Writes one part.  RC_OK: what is not marked afterwards is stale.  Otherwise it must be kept. */
static enum rc
write_part(struct finisher *s, struct finish **f, size_t n, bool alone, struct err *err)
{
	enum rc rc = look_up(s, f, &n, err);

	if (rc != RC_OK || n == 0)
		return rc;
	rc = finish_write(&s->writer, f, n, alone, err);
	n = unapplied(f, n);
	for (size_t i = 0; rc == RC_UNKNOWN && i < n; i++)
		run_of_finish(s, f[i])->end.written = WRITTEN_MAYBE;
	/* After a lost reply, "no such row" may mean that our first try has only now gone through. */
	return rc == RC_OK && n > 0 ? look_up(s, f, &n, err) : rc;
}

/* Some of a batch was written, or none.  One vain try is a lost connection, more are a fault. */
static void
note_answer(struct finisher *s, size_t n, enum rc rc, const struct err *err)
{
	if (rc == RC_OK) {
		backoff_reset(&s->backoff);
		health_well(s->node, HEALTH_FINISH);
		s->trial = false;
	} else {
		s->kept.next_us = clock_mono_us() + backoff_next_us(&s->backoff);
		log_debug(
		    "finish", "answer=%s tries=%u error=\"%s\"", rc_name(rc), s->backoff.tries, err->text);
		s->trial =
		    err->sqlstate[0] != '\0' && fault_of(err->sqlstate) != FAULT_SERVER && n <= TRIAL_MAX;
		if (s->backoff.tries >= ILL_TRIES && rc != RC_RACE)
			health_ill(s->node, HEALTH_FINISH, !s->trial, err);
	}
	s->writer.tries = s->backoff.tries;
}

/* What is known when a batch is begun.  aside: these were locked, or refused while others passed,
 * so that what becomes of them says nothing about the server.  alone: nothing else is here. */
struct offer {
	bool aside, alone;
};

/* batch[0..n): one incarnation, sorted by (id, version).  Not RC_OK: what is still open must be kept. */
static enum rc
finish_batch(struct finisher *s, size_t n, struct offer offer, struct err *err)
{
	int64_t now = clock_mono_us();
	enum rc rc = RC_OK;

	s->writer.who = (struct recorder){.node_id = atomic_load(&s->node->node_id),
	    .node = s->node->set->name,
	    .contended = offer.aside || now < s->contended_until_us};
	for (size_t i = 0; i < n; i++)
		fill(&s->finish[i], s->batch[i], now);
	for (enum part p = 0; p < PART__COUNT && rc == RC_OK; p++) {
		size_t k = 0;

		for (size_t i = 0; i < n; i++) {
			if (to_be_written(s->batch[i]) && part_of(s->batch[i]) == p)
				s->part[k++] = &s->finish[i];
		}
		if (k > 0)
			rc = write_part(s, s->part, k, offer.alone, err);
	}
	if (!offer.aside)
		note_answer(s, n, rc, err);
	return rc;
}

/* Like batch_take, but no more output than FINISH_BYTES at once. */
static size_t
take(struct finisher *s, struct run **chain, size_t max)
{
	size_t bytes = 0, n = 0;

	while (*chain != NULL && n < max && bytes < FINISH_BYTES &&
	       (n == 0 || (*chain)->incarnation == s->batch[0]->incarnation)) {
		struct run *r = *chain;

		bytes += r->end.output == NULL ? 0 : strlen(r->end.output);
		*chain = run_next(r);
		s->batch[n++] = r;
	}
	batch_sort(s->batch, n);
	return n;
}

static void
keep_locked(struct finisher *s, struct run *r)
{
	waiting_add_one(&s->locked, r);
	s->contended_until_us = clock_mono_us() + CONTENDED_US;
}

/* After finish_batch: what is locked, or could not be written, stays here; the rest goes back to
 * the boss.  Returns how many stayed aside. */
static size_t
settle_batch(struct finisher *s, size_t n, struct offer offer, enum rc rc)
{
	struct run *done = NULL;
	size_t aside = 0, settled = 0;

	for (size_t i = 0; i < n; i++) {
		struct run *r = s->batch[i];
		const struct finish *f = &s->finish[i];
		bool open = !f->applied && !f->refused && to_be_written(r);

		if (open && (f->locked || (rc != RC_OK && offer.aside))) {
			keep_locked(s, r);
			aside++;
		} else if (open && rc != RC_OK) {
			waiting_add_one(&s->kept, r);
		} else {
			if ((open && !r->copy) || r->end.written == WRITTEN_NEVER)
				stale_add(&s->stale, s->node, r);
			if (f->refused)
				hold_keep(r->hold); /* it is recorded as running */
			if (r->copy) {
				run_free(r);
				continue;
			}
			done = run_chain(r, done);
			settled++;
		}
	}
	atomic_fetch_sub(&s->node->ended, (int64_t)settled);
	boss_settled(s->node->boss, done);
	return aside;
}

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
	while ((n = take(s, &rest, FINISH_MAX)) > 0) {
		struct offer offer = {.alone = n == 1 && rest == NULL};
		enum rc rc = finish_batch(s, n, offer, &err);

		settle_batch(s, n, offer, rc);
		if (rc != RC_OK)
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
	n = take(s, &rest, LOCKED_MAX);
	waiting_add(&s->locked, rest);
	rc = finish_batch(s, n, offer, &err);
	s->locked.next_us = settle_batch(s, n, offer, rc) == 0 ? 0 : clock_mono_us() + LOCKED_US;
	if (rc != RC_OK && err.sqlstate[0] == '\0') /* no connection */
		s->locked.next_us = clock_mono_us() + backoff_next_us(&s->backoff);
}

static int64_t
next_round(const struct finisher *s)
{
	int64_t until = s->locked.first == NULL ? CLOCK_NEVER : s->locked.next_us;

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

bool
finisher_round(struct finisher *s)
{
	struct mail *m = NULL;
	int64_t until = batch_wait_us(s->db, s->used_us, next_round(s));
	enum rc rc = mailbox_pop_all_until(s->node->finish_queue, until, &m);

	ASSERT_OWNED(&s->owner);
	if (rc == RC_CLOSED)
		return false;
	if (m != NULL || next_round(s) != CLOCK_NEVER)
		s->used_us = clock_mono_us();
	batch_close_idle(s->db, s->used_us);
	finish_chain(s, rc == RC_OK && m != NULL ? run_of(m) : NULL);
	retry_locked(s);
	boss_ends_locked(s->node->boss, s->locked.count + (s->trial ? s->kept.count : 0));
	stale_say(&s->stale);
	return true;
}

static void *
finisher_main(void *arg)
{
	struct finisher *s = arg;

	owner_take(&s->owner);
	while (finisher_round(s))
		;
	return NULL;
}

struct finisher *
finisher_create(struct node *n)
{
	struct finisher *s = xcalloc(1, sizeof *s);

	s->node = n;
	s->store = n->store;
	s->db = node_db(n, "finish");
	s->writer =
	    (struct finish_writer){.store = s->store, .db = s->db, .retention_us = n->set->retention_us};
	s->used_us = clock_mono_us();
	backoff_init(&s->backoff, 20 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
	return s;
}

void
finisher_start(struct finisher *s)
{
	thread_start(&s->thread, "finisher", finisher_main, s);
}

void
finisher_stop(struct finisher *s)
{
	thread_join(s->thread);
	owner_leave(&s->owner);
}

void
finisher_destroy(struct finisher **f)
{
	if (*f == NULL)
		return;
	/* Only when the node must stop at once: others find these runs by our silence. */
	drop(*f, waiting_take(&(*f)->locked));
	drop(*f, waiting_take(&(*f)->kept));
	db_destroy(&(*f)->db);
	free(*f);
	*f = NULL;
}
