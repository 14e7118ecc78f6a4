/* Leaks: rows that this node holds in the database but not in memory (a lost reply).  Back they go. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/recover/private.h"

#define LEAK_AGE_US (2 * CALL_TIMEOUT_US) /* older than any reply that may still come */

/* Claimed leaks go back as they are; running ones have lost their run, and that is recorded.  False: the
 * server could not do it now. */
static bool
put_back(struct recover *r, int64_t incarnation, const struct owned *rows, size_t n)
{
	struct recorder who = {
	    .node_id = atomic_load(&r->node->node_id), .node = r->node->set->name, .contended = true};
	struct err err = {0};

	for (size_t i = 0; i < n; i++) {
		enum rc rc;

		if (rows[i].running) {
			struct finish f = {.id = rows[i].id,
					  .version = rows[i].version,
					  .incarnation = incarnation,
					  .outcome = OUTCOME_LOST,
					  .error = "the node lost track of this run"},
				      *one = &f;

			rc = r->store->finish(r->db, &who, &one, 1, &err);
			if (rc == RC_OK && f.locked)
				continue; /* by another session; the next round will see */
		} else {
			const struct holder holder = {.incarnation = incarnation, .contended = true};
			struct run run = {.id = rows[i].id, .version = rows[i].version}, *one = &run;
			int64_t released;

			rc = r->store->release(r->db, &holder, &one, 1, &released, &err);
			if (rc == RC_OK && run.place.locked)
				continue;
		}
		log_warn("leak", "task=%" PRId64 " running=%d answer=%s", rows[i].id, rows[i].running,
		    rc_name(rc));
		if (rc != RC_OK && rc != RC_BAD) /* a row that is refused harms no other */
			return false;
	}
	return true;
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
	if (n > 0) {
		r->clean = 0;
		n = boss_leaks(r->node->boss, rows, n);
	}
	if (atomic_load(&r->node->incarnation) == incarnation)
		done = put_back(r, incarnation, rows, n);
	free(rows);
	return done;
}
