/* Claiming, the holds that claims write, and what one node does for all nodes.  See store_task.h. */
#include "db/store_task.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/row_lock.h"
#include "db/sql.h"
#include "db/store_priv.h"

#define CLOCK_US (US_PER_S / 2)

void
store_fill_definition(struct run *r, const PGresult *res, int row)
{
	r->started = db_bool(res, row, STARTED);
	r->task.attempt = (int32_t)db_int64(res, row, ATTEMPT);
	r->task.max_attempts = (int32_t)db_int64(res, row, MAX_ATTEMPTS);
	r->once = db_bool(res, row, ONCE);
	r->limited = db_bool(res, row, LIMITED);
	free(r->task.kind);
	r->task.kind = xstrdup(db_text(res, row, KIND));
	if (!r->started)
		return;
	r->task.fire_us = db_int64(res, row, FIRE);
	r->task.timeout_us = db_int64(res, row, TIMEOUT);
	r->task.stall_us = db_int64(res, row, STALL);
	r->task.spare_us = db_int64(res, row, SPARE);
	r->task.name = xstrdup(db_text(res, row, NAME));
	r->task.command = xstrdup(db_text(res, row, COMMAND));
	r->task.owner = xstrdup(db_text(res, row, OWNER));
	if (!PQgetisnull(res, row, PROOF))
		r->task.proof = xstrdup(db_text(res, row, PROOF));
	if (!PQgetisnull(res, row, TRACEPARENT))
		r->task.traceparent = xstrdup(db_text(res, row, TRACEPARENT));
	if (!PQgetisnull(res, row, KEY))
		r->task.key = xstrdup(db_text(res, row, KEY));
	if (!PQgetisnull(res, row, ARGS))
		r->task.args_text = xstrdup(db_text(res, row, ARGS));
}

static struct run *
chain_of(const PGresult *res, const struct claim *who)
{
	struct run *chain = NULL;

	for (int i = PQntuples(res) - 1; i >= 0; i--) {
		struct run *r = run_create(db_int64(res, i, ID), db_int64(res, i, VERSION), who->incarnation);

		r->hold = hold_ref(who->hold);
		r->due_us = db_int64(res, i, DUE);
		r->band = (int)db_int64(res, i, BAND);
		store_fill_definition(r, res, i);
		chain = run_chain(r, chain);
	}
	return chain;
}

/* claim.sql raises each version by one; held.sql is asked for the raised ones.  Only rows that are
 * in `only`, if it is given. */
static enum rc
claim_query(struct db *db, const char *sql, const struct claim *who, const struct candidate *c,
    const struct row_lock *only, size_t n, int64_t raise, PGresult **res, struct err *err)
{
	AUTO_ARRAY struct pgarray ids = {0}, versions = {0};
	AUTO_ARRAY struct pgarray over = {0};
	char node[NUMBER_MAX], incarnation[NUMBER_MAX], batch[NUMBER_MAX], due[NUMBER_MAX];

	for (size_t i = 0; i < n; i++) {
		if (only == NULL || only[i].state == ROW_FREE) {
			pgarray_int(&ids, c[i].id);
			pgarray_int(&versions, c[i].version + raise);
		}
	}
	for (size_t i = 0; i < who->n_over; i++)
		pgarray_int(&over, who->over[i]);
	db_number(node, who->node_id);
	db_number(incarnation, who->incarnation);
	db_number(batch, hold_batch(who->hold));
	db_number(due, who->due_us);
	const char *claim_params[] = {pgarray_str(&ids), pgarray_str(&versions), node, incarnation,
	    who->at_once, batch, pgarray_str(&over), due};
	const char *held_params[] = {pgarray_str(&ids), pgarray_str(&versions), incarnation};

	return db_query(db, sql, raise ? 3 : 8, raise ? held_params : claim_params, res, err);
}

static enum rc
take_claimed(PGresult *res, enum rc rc, const struct claim *who, struct run **chain_out, size_t *won_out)
{
	*chain_out = NULL;
	*won_out = 0;
	if (rc == RC_OK) {
		*won_out = (size_t)PQntuples(res);
		*chain_out = chain_of(res, who);
	}
	PQclear(res);
	return rc;
}

/* Claims those that no other session has locked. */
static enum rc
claim_free(
    struct db *db, struct claim *who, const struct candidate *c, size_t n, PGresult **res, struct err *err)
{
	AUTO_FREE struct row_lock *rows = xcalloc(n + 1, sizeof *rows);
	enum rc rc;

	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row_lock){.id = c[i].id, .version = c[i].version};
	who->contended = false;
	rc = row_locks_take(db, rows, n, err);
	if (rc == RC_OK) {
		for (size_t i = 0; i < n; i++)
			who->contended = who->contended || rows[i].state == ROW_LOCKED;
		rc = claim_query(db, sql_text("claim"), who, c, rows, n, 0, res, err);
		rc = row_locks_end(db, rc, err);
	}
	if (rc != RC_OK) {
		PQclear(*res);
		*res = NULL;
	}
	return rc;
}

enum rc
store_clock(struct db *db, int64_t *now_us_out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	db_within(db, CLOCK_US);
	rc = db_query(db, sql_text("clock"), 0, NULL, &res, err);
	db_within(db, 0);
	if (rc == RC_OK)
		*now_us_out = db_int64(res, 0, 0);
	return rc;
}

enum rc
store_claim(struct db *db, struct claim *who, const struct candidate *c, size_t n, struct run **chain_out,
    size_t *won_out, struct err *err)
{
	PGresult *res = NULL;
	enum rc rc = RC_OK;

	db_within(db, who->within_us);
	if (!who->contended)
		rc = claim_query(db, sql_text("claim"), who, c, NULL, n, 0, &res, err);
	if (who->contended || row_lock_refused(rc, err))
		rc = claim_free(db, who, c, n, &res, err);
	db_within(db, 0);
	return take_claimed(res, rc, who, chain_out, won_out);
}

enum rc
store_held(struct db *db, const struct claim *who, const struct candidate *c, size_t n,
    struct run **chain_out, size_t *won_out, struct err *err)
{
	PGresult *res = NULL;
	enum rc rc = claim_query(db, sql_text("held"), who, c, NULL, n, 1, &res, err);

	return take_claimed(res, rc, who, chain_out, won_out);
}

enum rc
store_hold_drop(struct db *db, int64_t incarnation, int64_t *batch, size_t *n, struct err *err)
{
	AUTO_ARRAY struct pgarray batches = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	for (size_t i = 0; i < *n; i++)
		pgarray_int(&batches, batch[i]);
	const char *params[] = {NUMBER(incarnation), pgarray_str(&batches)};

	rc = db_query(db, sql_text("hold_drop"), 2, params, &res, err);
	if (rc == RC_OK) {
		*n = (size_t)PQntuples(res);
		for (size_t i = 0; i < *n; i++)
			batch[i] = db_int64(res, (int)i, 0);
	}
	return rc;
}

enum rc
store_duties(struct db *db, struct duties_left *left_out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("duties"), 0, NULL, &res, err);

	*left_out = (struct duties_left){0};
	if (rc == RC_OK)
		*left_out = (struct duties_left){.line = db_bool(res, 0, 2),
		    .orphans = db_bool(res, 0, 3),
		    .upkeep = db_bool(res, 0, 4),
		    .strays = db_bool(res, 0, 5)};
	return rc;
}

enum rc
store_waits(struct db *db, int64_t *over_out, int64_t *next_us_out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("waits"), 0, NULL, &res, err);

	*over_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	*next_us_out = rc == RC_OK && !PQgetisnull(res, 0, 1) ? db_int64(res, 0, 1) : INT64_MAX;
	return rc;
}

enum rc
store_tell(struct db *db, int64_t *told_out, bool *left_out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("tell"), 0, NULL, &res, err);

	*told_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	*left_out = rc == RC_OK && db_bool(res, 0, 1);
	return rc;
}
