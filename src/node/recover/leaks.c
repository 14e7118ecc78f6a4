/* Leaks: rows that this node holds in the database but not in memory (a lost reply).  Back they go. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/recover/private.h"

#define LEAK_AGE_US (2 * CALL_TIMEOUT_US) /* older than any reply that may still come */

struct leaks {
	struct recover *r;
	int64_t incarnation;
	const struct owned *rows;
	bool done;  /* all went back, or never will */
	bool ended; /* the server cannot do it now */
};

static int64_t
leak_id(void *ctx, size_t i)
{
	const struct leaks *l = ctx;

	return l->rows[i].id;
}

static enum rc
record_lost(
    const struct leaks *l, const struct owned *row, int64_t within_us, bool *locked_out, struct err *err)
{
	const struct node *node = l->r->node;
	struct recorder who = {.node_id = atomic_load(&node->node_id),
	    .node = node->set->name,
	    .contended = true,
	    .within_us = within_us};
	struct finish f = {.id = row->id,
			  .version = row->version,
			  .incarnation = l->incarnation,
			  .outcome = OUTCOME_LOST,
			  .error = "the node lost track of this run"},
		      *one = &f;
	enum rc rc = l->r->store->finish(l->r->db, &who, &one, 1, err);

	*locked_out = f.locked;
	return rc;
}

static enum rc
release(const struct leaks *l, const struct owned *row, int64_t within_us, bool *locked_out, struct err *err)
{
	const struct holder who = {.incarnation = l->incarnation, .contended = true, .within_us = within_us};
	struct run run = {.id = row->id, .version = row->version}, *one = &run;
	int64_t released;
	enum rc rc = l->r->store->release(l->r->db, &who, &one, 1, &released, err);

	*locked_out = run.place.locked;
	return rc;
}

/* Claimed leaks go back as they are; running ones have lost their run, and that is recorded.  One by one, so
 * that a row that is refused harms no other. */
static enum sift
put_back_one(void *ctx, size_t i, size_t n, int64_t within_us)
{
	struct leaks *l = ctx;
	const struct owned *row = &l->rows[i];
	struct err err = {0};
	bool locked = false;
	enum rc rc = row->running ? record_lost(l, row, within_us, &locked, &err)
				  : release(l, row, within_us, &locked, &err);

	(void)n;
	if (rc == RC_OK && locked) /* by another session; the next round will see */
		return SIFT_ANSWERED;
	log_warn("leak", "task=%" PRId64 " running=%d answer=%s", row->id, row->running, rc_name(rc));
	if (rc == RC_OK)
		doubts_drop(&l->r->node->doubts, row->id);
	if (rc == RC_OK || rc == RC_BAD)
		return SIFT_ANSWERED;
	l->done = false;
	if (err_is_silence(rc, &err))
		return SIFT_SILENT;
	l->ended = true;
	return SIFT_STOP;
}

/* One about which the server is silent keeps no other from going back. */
static bool
put_back(struct recover *r, int64_t incarnation, const struct owned *rows, size_t n)
{
	struct leaks l = {.r = r, .incarnation = incarnation, .rows = rows, .done = true};
	const struct sifted what = {.try = put_back_one, .id = leak_id, .ctx = &l};

	for (size_t i = 0; i < n && !l.ended; i++)
		if (!doubts_wait(&r->node->doubts, rows[i].id))
			sift_alone(&r->sifter, &what, i);
	return l.done;
}

/* Only what was claimed can leak.  Two looks while nothing is in hand: at the first it may be too young. */
static bool
may_leak(struct recover *r, bool idle)
{
	int64_t batch = holds_last(&r->node->holds);

	if (!idle || batch != r->batch)
		r->clean = 0;
	r->batch = batch;
	return r->clean < 2;
}

bool
recover_leaks(struct recover *r, bool idle)
{
	int64_t incarnation = atomic_load(&r->node->incarnation);
	struct owned *rows = NULL;
	size_t n = 0;
	struct err err = {0};
	bool done = true;

	if (incarnation == 0 || !may_leak(r, idle))
		return true;
	r->clean += idle;
	if (r->store->own(r->db, incarnation, LEAK_AGE_US, &rows, &n, &err) != RC_OK) {
		if (!r->leaks_said)
			log_warn("leaks", "error=\"%s\"", err.text);
		r->leaks_said = true;
		r->clean = 0;
		return false;
	}
	r->leaks_said = false;
	if (atomic_load(&r->node->unsure) > 0) { /* a loader may be about to hand some of them to the boss */
		r->clean = 0;
		free(rows);
		return false;
	}
	if (n > 0) {
		r->clean = 0;
		n = boss_leaks(r->node->boss, rows, n);
	}
	if (atomic_load(&r->node->incarnation) == incarnation)
		done = put_back(r, incarnation, rows, n);
	free(rows);
	return done;
}
