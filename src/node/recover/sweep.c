/* Putting back what nobody holds any more.  A task about which the server is silent (a trigger of the user's
 * that waits) keeps no other from it: see doubts.h. */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/log.h"
#include "node/context.h"
#include "node/recover/private.h"

#define SWEEP_MAX 1000 /* tasks in one statement */

/* What one incarnation holds, one statement after the other. */
struct sweep {
	struct recover *r;
	struct lost *lost;
	struct recovered got;
	bool done; /* all was answered */
};

static int64_t
sweep_id(void *ctx, size_t i)
{
	const struct sweep *s = ctx;

	return s->lost[i].id;
}

static enum sift
sweep_some(void *ctx, size_t from, size_t n, int64_t within_us)
{
	struct sweep *s = ctx;
	struct recover *r = s->r;
	const struct recovery what = {.by = r->node->set->name,
	    .incarnation = s->lost[from].incarnation,
	    .only = s->lost + from,
	    .n = n,
	    .within_us = within_us};
	struct recovered got;
	struct err err = {0};
	enum rc rc = r->store->recover(r->db, &what, &got, &err);

	if (rc == RC_OK) {
		s->got.all += got.all;
		s->got.running += got.running;
		s->got.parked += got.parked;
		if (n == 1)
			doubts_drop(&r->node->doubts, s->lost[from].id);
		return SIFT_ANSWERED;
	}
	s->done = false;
	log_warn("recover", "answer=%s tasks=%zu error=\"%s\"", rc_name(rc), n, err.text);
	return err_is_silence(rc, &err) ? SIFT_SILENT : SIFT_STOP;
}

/* lost[0..n): of one incarnation. */
static void
sweep_one(struct sweep *s, size_t n)
{
	const struct sifted what = {.try = sweep_some, .id = sweep_id, .ctx = s};

	for (size_t k; n > 0; n -= k, s->lost += k) {
		k = n < SWEEP_MAX ? n : SWEEP_MAX;
		sift_each(&s->r->sifter, &what, s->lost, k, sizeof *s->lost);
	}
}

bool
recover_sweep(struct recover *r, int64_t incarnation)
{
	struct sweep s = {.r = r, .done = true};
	AUTO_FREE struct lost *lost = NULL;
	struct err err = {0};
	int64_t sql_kept = 0;
	size_t n = 0;

	owners_end_orphans(&r->node->owners, r->db);
	if (r->store->lost(r->db, incarnation, &lost, &n, &sql_kept, &err) != RC_OK) {
		log_warn("recover", "error=\"%s\"", err.text);
		s.done = false;
	}
	for (size_t from = 0, to = 0; from < n; from = to) {
		while (to < n && lost[to].incarnation == lost[from].incarnation)
			to++;
		s.lost = lost + from;
		sweep_one(&s, to - from);
	}
	if (sql_kept > 0)
		log_warn("sql_not_ended", "backends=%" PRId64 " hint=\"%s\"", sql_kept,
		    "their tasks wait until a role that has the right ends them");
	if (s.got.all > 0)
		log_info("recovered", "tasks=%" PRId64 " had_run=%" PRId64 " parked=%" PRId64, s.got.all,
		    s.got.running, s.got.parked);
	node_count(r->node, COUNT_RECOVERED, s.got.all);
	return s.done;
}
