/* One batch of outcomes: written, and what becomes of each run; see private.h. */
#include "node/finisher/private.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/fault.h"
#include "node/boss/boss.h"

#define FINISH_BYTES (4 * 1024 * 1024) /* of output in one statement */
#define ILL_TRIES    2                 /* vain tries that make it a fault, not just a lost connection */
#define TRIAL_MAX    64 /* if this many in a row are refused as bad rows are, it is not the rows */
#define SILENCES_MAX 3  /* in a row: then the server is silent about everything */

static bool
to_be_written(const struct run *r)
{
	return r->end.written == WRITTEN_NOT || r->end.written == WRITTEN_MAYBE;
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
	    .cost = r->end.cost,
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

/* RC_OK: what is not marked afterwards is stale.  Otherwise it must be kept. */
static enum rc
write_open(struct finisher *s, struct finish **f, size_t n, bool alone, struct err *err)
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

/* Some of a batch was written, or none.  One vain try is a lost connection, more are a fault; and so is
 * silence about one batch after another. */
static void
note_answer(struct finisher *s, size_t n, enum rc rc, const struct err *err)
{
	if (err_is_silence(rc, err) && s->silences++ < SILENCES_MAX)
		return;
	if (rc == RC_OK) {
		s->silences = 0;
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

enum rc
finisher_batch(struct finisher *s, size_t n, struct offer offer, struct err *err)
{
	int64_t now = clock_mono_us();
	size_t k = 0;
	enum rc rc;

	s->writer.who = (struct recorder){.node_id = atomic_load(&s->node->node_id),
	    .node = s->node->set->name,
	    .contended = offer.aside || now < s->contended_until_us,
	    .within_us = finisher_patience(s, n)};
	for (size_t i = 0; i < n; i++) {
		fill(&s->finish[i], s->batch[i], now);
		if (to_be_written(s->batch[i]))
			s->open[k++] = &s->finish[i];
	}
	rc = write_open(s, s->open, k, offer.alone, err);
	if (!offer.aside)
		note_answer(s, n, rc, err);
	return rc;
}

/* Like batch_take, but no more output than FINISH_BYTES at once. */
size_t
finisher_take(struct finisher *s, struct run **chain, size_t max)
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

/* Where a run waits that is not written. */
static struct waiting *
waits_in(struct finisher *s, size_t n, bool mute)
{
	if (!mute || s->silences > SILENCES_MAX || (s->aside == NULL && n > 1))
		return &s->kept;
	return &s->mute;
}

static void
note_stale(struct finisher *s, const struct run *r)
{
	node_count(s->node, COUNT_STALE, 1);
	s->stale.count++;
	s->stale.id = r->id;
	log_debug("stale", "task=%" PRId64 " version=%" PRId64 " outcome=%s", r->id, r->version,
	    outcome_name(r->end.outcome));
}

size_t
finisher_settle(struct finisher *s, size_t n, struct offer offer, enum rc rc, const struct err *err)
{
	struct run *done = NULL;
	bool mute = err_is_silence(rc, err);
	size_t aside = 0, settled = 0, gone = 0;

	for (size_t i = 0; i < n; i++) {
		struct run *r = s->batch[i];
		const struct finish *f = &s->finish[i];
		bool open = !f->applied && !f->refused && to_be_written(r);

		if (open && (f->locked || (rc != RC_OK && offer.aside && !mute))) {
			keep_locked(s, r);
			aside++;
		} else if (open && rc != RC_OK) {
			waiting_add_one(waits_in(s, n, mute), r);
		} else {
			gone++;
			/* an answer may be quicker than we are */
			if ((open && !r->copy && r->end.outcome != OUTCOME_AWAITS) ||
			    r->end.written == WRITTEN_NEVER)
				note_stale(s, r);
			if (open)
				hold_doubt(r->hold);
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
	if (s->aside == NULL)
		atomic_fetch_sub(&s->n_held, gone);
	atomic_fetch_sub(&s->node->ended, (int64_t)settled);
	boss_settled(s->node->boss, done);
	return aside;
}
