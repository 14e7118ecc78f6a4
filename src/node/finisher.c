/*
 * Finisher: workers -> finisher -> boss.
 *
 * When idle there is no delay: what has ended is written at once, and what ends while the server works makes
 * the next batch. A finish is fenced by (id, version, incarnation).  One that the row does not answer to is
 * stale: dropped and counted.  One whose reply was lost is looked up in the history before it is tried again.
 * One whose row somebody has locked is put aside and tried again beside the others; one that the server will not
 * take harms no other.
 * Nothing here waits longer than the lease: when the node is fenced, results are dropped, because others may
 * have the tasks.
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
#include "node/batch.h"
#include "node/boss.h"
#include "node/context.h"

#define FINISH_MAX   1000
#define FINISH_BYTES (4 * 1024 * 1024) /* of output in one statement */
#define LOCKED_MAX   32                /* of these at once: each costs a moment */
#define LOCKED_US    (250 * US_PER_MS) /* between tries of what is locked */
#define CONTENDED_US (2 * US_PER_S)    /* so long after a locked row no statement waits for the next one */

struct finisher {
	struct node *node; /* borrowed */
	pthread_t thread;
	/* owned by the thread */
	struct db *db;
	struct backoff backoff;
	struct run *batch[FINISH_MAX];
	struct finish finish[FINISH_MAX];
	struct finish *part[FINISH_MAX];
	struct run *locked, *last_locked; /* chain of runs whose rows somebody else has locked, and its end */
	size_t n_locked;
	int64_t next_locked_us, contended_until_us;
};

enum part { PART_NOT_STARTED, PART_ENDED, PART__COUNT };

static enum part
part_of(const struct run *r)
{
	return r->outcome == OUTCOME_NOT_STARTED ? PART_NOT_STARTED : PART_ENDED;
}

static void
fill(struct finish *f, const struct run *r, int64_t now)
{
	*f = (struct finish){.id = r->id,
	    .version = r->version,
	    .incarnation = r->incarnation,
	    .begun_ago_us = now - r->begun_us,
	    .ended_ago_us = now - r->ended_us,
	    .outcome = r->outcome,
	    .has_exit_code = r->has_exit_code,
	    .exit_code = r->exit_code,
	    .error = r->error,
	    .output = r->output,
	    .output_truncated = r->output_truncated};
}

/* A row the server will not take (an output its encoding cannot hold, say): once more without the text. */
static enum rc
write_without_text(struct finisher *s, const struct finisher_name *who, struct finish *f, struct err *err)
{
	char why[600];

	snprintf(why, sizeof why, "%s%s(its text could not be stored: %s)",
	    f->outcome == OUTCOME_SUCCEEDED ? "" : "failed", f->outcome == OUTCOME_SUCCEEDED ? "" : " ",
	    err->text);
	for (char *p = why; *p != '\0'; p++)
		*p = (unsigned char)*p < 0x80 ? *p : '?';
	f->error = f->outcome == OUTCOME_SUCCEEDED ? NULL : why;
	f->output = NULL;
	f->output_truncated = true;
	enum rc rc = store_finish(s->db, who, &f, 1, err);

	f->error = NULL;
	return rc;
}

/* Nothing of it can be stored as it was: parked, so that it is not run again; or given up, this one only. */
static enum rc
write_parked(struct finisher *s, const struct finisher_name *who, struct finish *f, struct err *err)
{
	char why[600];
	enum rc rc;

	log_error("finish_refused", "task=%" PRId64 " version=%" PRId64 " outcome=%s error=\"%s\"", f->id,
	    f->version, outcome_name(f->outcome), err->text);
	snprintf(why, sizeof why, "it %s, and that could not be recorded: %s", outcome_name(f->outcome),
	    err->text);
	rc = store_park(s->db, who, f, why, true, err);
	if (rc == RC_BAD)
		rc = store_park(s->db, who, f, why, false, err);
	f->refused = rc == RC_BAD;
	return rc == RC_BAD ? RC_OK : rc;
}

static bool
no_partition(enum rc rc, const struct err *err)
{
	return rc == RC_BAD && strcmp(err->sqlstate, "23514") == 0 &&
	       (strstr(err->text, "no partition of relation") != NULL ||
		   strstr(err->text, "violates partition constraint") != NULL);
}

/* Made here, or by another node, which then is at it just now: either way the batch is to be tried again.  On a
 * new connection, because one that looked while a partition was attached may go on by an old list of them. */
static enum rc
make_partitions(struct finisher *s, struct err *err)
{
	struct err why = {0};
	enum rc rc = store_upkeep(s->db, s->node->set->retention_us, &why);

	if (rc != RC_OK)
		*err = why;
	db_disconnect(s->db);
	return RC_AGAIN;
}

/* The server refused a batch: a missing partition is made; else one by one, so that one bad row harms no
 * other. */
static enum rc
write_refused(
    struct finisher *s, const struct finisher_name *who, struct finish **f, size_t n, struct err *err)
{
	enum rc rc = RC_OK;

	if (no_partition(RC_BAD, err))
		return make_partitions(s, err);
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		if (f[i]->applied || f[i]->locked || f[i]->refused)
			continue;
		rc = store_finish(s->db, who, &f[i], 1, err);
		if (no_partition(rc, err))
			return make_partitions(s, err);
		if (rc == RC_BAD)
			rc = write_without_text(s, who, f[i], err);
		if (rc == RC_BAD)
			rc = write_parked(s, who, f[i], err);
	}
	return rc;
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

/* Writes one part.  Sets ->applied on what the database has afterwards; the rest is stale. */
static void
write_part(struct finisher *s, const struct finisher_name *who, struct finish **f, size_t n)
{
	struct err err = {0};
	bool unknown = false;

	while (n > 0 && node_may_act(s->node, f[0]->incarnation, clock_boot_us())) {
		enum rc rc = unknown ? store_recorded(s->db, f, n, &err) : RC_OK;

		if (rc == RC_OK) {
			n = unapplied(f, n);
			if (n == 0)
				return;
			rc = store_finish(s->db, who, f, n, &err);
		}
		if (rc == RC_BAD)
			rc = write_refused(s, who, f, n, &err);
		if (rc == RC_OK) {
			backoff_reset(&s->backoff);
			/* After a lost reply, "no such row" may mean that our first try is through only now.
			 */
			n = unapplied(f, n);
			if (unknown && n > 0 && store_recorded(s->db, f, n, &err) != RC_OK)
				continue;
			return;
		}
		unknown = unknown || rc == RC_UNKNOWN;
		if (!batch_pause(&s->backoff, &s->node->hurry, rc, "finish", &err))
			return;
	}
}

static void
count_stale(struct finisher *s, const struct run *r)
{
	node_count(s->node, COUNT_STALE, 1);
	log_warn("stale_finish", "task=%" PRId64 " version=%" PRId64 " outcome=%s hint=\"%s\"", r->id,
	    r->version, outcome_name(r->outcome),
	    "somebody else has the task now, or it was deleted; this result changed nothing");
}

/* batch[0..n): one incarnation, sorted by (id, version). */
static void
finish_batch(struct finisher *s, size_t n, bool contended)
{
	int64_t now = clock_mono_us();
	struct finisher_name who = {.node_id = atomic_load(&s->node->node_id),
	    .node = s->node->set->name,
	    .contended = contended || now < s->contended_until_us};

	for (size_t i = 0; i < n; i++)
		fill(&s->finish[i], s->batch[i], now);
	for (enum part p = 0; p < PART__COUNT; p++) {
		size_t k = 0;

		for (size_t i = 0; i < n; i++) {
			if (!s->batch[i]->stale && !s->batch[i]->recorded && part_of(s->batch[i]) == p)
				s->part[k++] = &s->finish[i];
		}
		write_part(s, &who, s->part, k);
	}
	for (size_t i = 0; i < n; i++) {
		if (!s->finish[i].applied && !s->finish[i].locked && !s->finish[i].refused &&
		    !s->batch[i]->recorded)
			count_stale(s, s->batch[i]);
	}
}

/* Like batch_take, but no more output than FINISH_BYTES at once. */
static size_t
take(struct finisher *s, struct run **chain, size_t max)
{
	size_t bytes = 0, n = 0;

	while (*chain != NULL && n < max && bytes < FINISH_BYTES &&
	       (n == 0 || (*chain)->incarnation == s->batch[0]->incarnation)) {
		struct run *r = *chain;

		bytes += r->output == NULL ? 0 : strlen(r->output);
		*chain = run_next(r);
		s->batch[n++] = r;
	}
	batch_sort(s->batch, n);
	return n;
}

/* To the end of the chain: whoever has waited longest is tried first. */
static void
keep_locked(struct finisher *s, struct run *r)
{
	struct run *chain = run_chain(r, NULL);

	if (s->locked == NULL)
		s->locked = chain;
	else
		s->last_locked->note.mail.next = &chain->note.mail;
	s->last_locked = r;
	s->contended_until_us = clock_mono_us() + CONTENDED_US;
}

/* After finish_batch: what is locked stays here, the rest goes back to the boss.  Returns how many stayed. */
static size_t
settle_batch(struct finisher *s, size_t n)
{
	struct run *done = NULL;
	size_t locked = 0;

	for (size_t i = 0; i < n; i++) {
		if (s->finish[i].locked && node_may_act(s->node, s->batch[i]->incarnation, clock_boot_us())) {
			keep_locked(s, s->batch[i]);
			locked++;
		} else {
			done = run_chain(s->batch[i], done);
		}
	}
	s->n_locked += locked;
	boss_ends_locked(s->node->boss, s->n_locked);
	boss_settled(s->node->boss, done);
	return locked;
}

static void
finish_chain(struct finisher *s, struct run *chain)
{
	size_t n;

	while ((n = take(s, &chain, FINISH_MAX)) > 0) {
		finish_batch(s, n, false);
		settle_batch(s, n);
	}
}

/* A few of the locked ones, so that what has ended meanwhile need not wait long for its turn; and on with the next
 * few soon, when these were free again. */
static void
retry_locked(struct finisher *s)
{
	size_t n;

	if (s->locked == NULL || clock_mono_us() < s->next_locked_us)
		return;
	n = take(s, &s->locked, LOCKED_MAX);
	s->n_locked -= n;
	finish_batch(s, n, true);
	s->next_locked_us = settle_batch(s, n) == 0 ? 0 : clock_mono_us() + LOCKED_US;
}

static void *
finisher_main(void *arg)
{
	struct finisher *s = arg;

	for (;;) {
		struct mail *m = NULL;
		int64_t until = s->locked == NULL ? CLOCK_NEVER : s->next_locked_us;
		enum rc rc = mailbox_pop_all_until(s->node->finish_queue, until, &m);

		if (rc == RC_CLOSED)
			break;
		if (rc == RC_OK && m != NULL)
			finish_chain(s, run_of(m));
		retry_locked(s);
	}
	boss_settled(s->node->boss, s->locked);
	db_destroy(&s->db);
	return NULL;
}

struct finisher *
finisher_start(struct node *n)
{
	struct finisher *s = xcalloc(1, sizeof *s);

	s->node = n;
	s->db = node_db(n, "finish");
	backoff_init(&s->backoff, 20 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
	thread_start(&s->thread, "finisher", finisher_main, s);
	return s;
}

void
finisher_stop(struct finisher **f)
{
	thread_join((*f)->thread);
	free(*f);
	*f = NULL;
}
