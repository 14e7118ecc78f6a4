/* Looking, claiming, starting, releasing; see store_task.h.  (Finishing and recovering: store_finish.c.) */
#include "db/store_task.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "db/fence.h"
#include "db/number.h"
#include "db/sql.h"
#include "db/store_node.h"

/* Columns of claim.sql, start.sql and held.sql. */
enum {
	ID,
	VERSION,
	DUE,
	LANE,
	STARTED,
	ATTEMPT,
	MAX_ATTEMPTS,
	KIND,
	ONCE,
	NAME,
	COMMAND,
	ARGS,
	TIMEOUT,
	STALL,
	FIRE,
	LIMITED,
	OWNER,
	PROOF
};

/* "17 523 900" to numbers. */
static void
parse_able(struct lane_row *row, const char *text)
{
	row->able = xcalloc(strlen(text) / 2 + 1, sizeof *row->able);
	while (*text != '\0') {
		char *end;

		row->able[row->n_able++] = strtoll(text, &end, 10);
		text = *end == ' ' ? end + 1 : end;
	}
}

enum rc
store_lanes(struct db *db, const struct ability *able, struct lane_row **out, size_t *n_out, struct err *err)
{
	const char *params[] = {able->kinds, able->labels, able->owners, able->bounds};
	PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("lanes"), 4, params, &res, err);

	*n_out = rc == RC_OK ? (size_t)PQntuples(res) : 0;
	*out = xcalloc(*n_out + 1, sizeof **out);
	for (size_t i = 0; i < *n_out; i++) {
		(*out)[i].lane = (int32_t)db_int64(res, (int)i, 0);
		(*out)[i].kind = xstrdup(db_text(res, (int)i, 2));
		parse_able(&(*out)[i], db_text(res, (int)i, 1));
	}
	PQclear(res);
	return rc;
}

void
lane_rows_free(struct lane_row **rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free((*rows)[i].able);
		free((*rows)[i].kind);
	}
	free(*rows);
	*rows = NULL;
}

void
look_reset(struct look *q)
{
	q->n_lanes = 0;
}

struct look_lane *
look_add(struct look *q, int32_t lane, const int64_t *mark)
{
	if (q->n_lanes == q->room) {
		q->room = q->room == 0 ? 4 : 2 * q->room;
		q->lane = xrealloc(q->lane, q->room * sizeof *q->lane);
	}
	struct look_lane *l = &q->lane[q->n_lanes++];

	l->lane = lane;
	l->mark = mark;
	l->n_shards = 0;
	return l;
}

void
look_fini(struct look *q)
{
	free(q->lane);
	q->lane = NULL;
	q->n_lanes = q->room = 0;
}

static void
read_candidates(const PGresult *res, struct candidate *c)
{
	for (int i = 0; i < PQntuples(res); i++, c++) {
		c->id = db_int64(res, i, 0);
		c->version = db_int64(res, i, 1);
		c->shard = (uint16_t)db_int64(res, i, 2);
		c->lane = (int32_t)db_int64(res, i, 3);
		c->priority = (int16_t)db_int64(res, i, 4);
		c->overdue_us = db_int64(res, i, 5);
		c->due_us = db_int64(res, i, 6);
		c->has_require = db_bool(res, i, 7);
		c->misfired = db_bool(res, i, 8);
	}
}

/* The lanes of a look as arrays: where the shards of each begin and end, all shards, and the mark of each. */
struct look_arrays {
	struct pgarray lanes, first, last, shards, marks;
};

static void
look_arrays_fill(struct look_arrays *a, const struct look *q)
{
	int64_t n = 0;

	for (size_t i = 0; i < q->n_lanes; i++) {
		const struct look_lane *l = &q->lane[i];

		pgarray_int(&a->lanes, l->lane);
		pgarray_int(&a->first, n + 1);
		for (size_t k = 0; k < l->n_shards; k++, n++) {
			int64_t mark = q->marks ? l->mark[l->shard[k]] : LOOK_NO_MARK;

			pgarray_int(&a->shards, l->shard[k]);
			if (mark == LOOK_NO_MARK)
				pgarray_null(&a->marks);
			else
				pgarray_int(&a->marks, mark);
		}
		pgarray_int(&a->last, n);
	}
}

static void
look_arrays_fini(struct look_arrays *a)
{
	pgarray_fini(&a->lanes);
	pgarray_fini(&a->first);
	pgarray_fini(&a->last);
	pgarray_fini(&a->shards);
	pgarray_fini(&a->marks);
}

enum rc
store_look(struct db *db, const struct look *q, struct candidate **out, size_t *n_out, struct err *err)
{
	struct look_arrays a = {0};
	char ahead[NUMBER_MAX], limit[NUMBER_MAX];
	PGresult *res = NULL;
	enum rc rc;

	*out = NULL;
	*n_out = 0;
	look_arrays_fill(&a, q);
	const char *params[] = {pgarray_str(&a.lanes), pgarray_str(&a.first), pgarray_str(&a.last),
	    pgarray_str(&a.shards), pgarray_str(&a.marks), number(ahead, q->ahead_us), q->able.kinds,
	    q->able.labels, q->once ? "t" : "f", number(limit, q->limit), q->able.owners, q->able.bounds};

	rc = db_query(db, sql_text(q->free ? "look_free" : "look"), 12, params, &res, err);
	if (rc == RC_OK) {
		*n_out = (size_t)PQntuples(res);
		*out = xcalloc(*n_out + 1, sizeof **out);
		read_candidates(res, *out);
	}
	PQclear(res);
	look_arrays_fini(&a);
	return rc;
}

enum rc
store_misfire(struct db *db, const struct candidate *c, size_t n, int64_t *settled_out, struct err *err)
{
	struct pgarray ids = {0}, versions = {0};
	PGresult *res = NULL;
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		pgarray_int(&ids, c[i].id);
		pgarray_int(&versions, c[i].version);
	}
	const char *params[] = {pgarray_str(&ids), pgarray_str(&versions)};

	rc = db_query(db, sql_text("misfire"), 2, params, &res, err);
	*settled_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	PQclear(res);
	pgarray_fini(&ids);
	pgarray_fini(&versions);
	return rc;
}

/* The definition, as it was when the run was started.  Args that do not parse cannot come from args_list():
 * empty then. */
static void
fill_definition(struct run *r, const PGresult *res, int row)
{
	struct err ignored;

	r->started = db_bool(res, row, STARTED);
	r->attempt = (int32_t)db_int64(res, row, ATTEMPT);
	r->max_attempts = (int32_t)db_int64(res, row, MAX_ATTEMPTS);
	r->once = db_bool(res, row, ONCE);
	r->limited = db_bool(res, row, LIMITED);
	free(r->kind);
	r->kind = xstrdup(db_text(res, row, KIND));
	if (!r->started)
		return;
	r->fire_us = db_int64(res, row, FIRE);
	r->timeout_us = db_int64(res, row, TIMEOUT);
	r->stall_us = db_int64(res, row, STALL);
	r->name = xstrdup(db_text(res, row, NAME));
	r->command = xstrdup(db_text(res, row, COMMAND));
	r->owner = xstrdup(db_text(res, row, OWNER));
	if (!PQgetisnull(res, row, PROOF))
		r->proof = xstrdup(db_text(res, row, PROOF));
	if (pairs_parse(db_text(res, row, ARGS), (size_t)PQgetlength(res, row, ARGS), &r->args, &ignored) !=
	    RC_OK)
		pairs_fini(&r->args);
}

static struct run *
chain_of(const PGresult *res, const struct claim *who)
{
	struct run *chain = NULL;

	for (int i = PQntuples(res) - 1; i >= 0; i--) {
		struct run *r = run_create(db_int64(res, i, ID), db_int64(res, i, VERSION), who->incarnation);

		r->hold = hold_ref(who->hold);
		r->due_us = db_int64(res, i, DUE);
		r->band = (int)(db_int64(res, i, LANE) & BAND_MASK);
		fill_definition(r, res, i);
		chain = run_chain(r, chain);
	}
	return chain;
}

/* claim.sql raises each version by one; held.sql is asked for the raised ones.  Only rows that are in `only`, if it is given. */
static enum rc
claim_query(struct db *db, const char *sql, const struct claim *who, const struct candidate *c,
    const struct fence *only, size_t n, int64_t raise, PGresult **res, struct err *err)
{
	struct pgarray ids = {0}, versions = {0};
	struct pgarray over = {0};
	char node[NUMBER_MAX], incarnation[NUMBER_MAX], batch[NUMBER_MAX];
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		if (only == NULL || only[i].state == FENCE_FREE) {
			pgarray_int(&ids, c[i].id);
			pgarray_int(&versions, c[i].version + raise);
		}
	}
	for (size_t i = 0; i < who->n_over; i++)
		pgarray_int(&over, who->over[i]);
	number(node, who->node_id);
	number(incarnation, who->incarnation);
	number(batch, hold_batch(who->hold));
	const char *claim_params[] = {pgarray_str(&ids), pgarray_str(&versions), node, incarnation,
	    who->instant, batch, pgarray_str(&over)};
	const char *held_params[] = {pgarray_str(&ids), pgarray_str(&versions), incarnation};

	rc = db_query(db, sql, raise ? 3 : 7, raise ? held_params : claim_params, res, err);
	pgarray_fini(&over);
	pgarray_fini(&ids);
	pgarray_fini(&versions);
	return rc;
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

/* The candidates that nobody has locked. */
static enum rc
claim_free(
    struct db *db, struct claim *who, const struct candidate *c, size_t n, PGresult **res, struct err *err)
{
	struct fence *rows = xcalloc(n + 1, sizeof *rows);
	enum rc rc;

	for (size_t i = 0; i < n; i++)
		rows[i] = (struct fence){.id = c[i].id, .version = c[i].version};
	who->contended = false;
	rc = fence_open(db, rows, n, err);
	if (rc == RC_OK) {
		for (size_t i = 0; i < n; i++)
			who->contended = who->contended || rows[i].state == FENCE_LOCKED;
		rc = claim_query(db, sql_text("claim"), who, c, rows, n, 0, res, err);
		rc = fence_close(db, rc, err);
	}
	if (rc != RC_OK) {
		PQclear(*res);
		*res = NULL;
	}
	free(rows);
	return rc;
}

enum rc
store_claim(struct db *db, struct claim *who, const struct candidate *c, size_t n, struct run **chain_out,
    size_t *won_out, struct err *err)
{
	PGresult *res = NULL;
	enum rc rc = RC_OK;

	if (!who->contended)
		rc = claim_query(db, sql_text("claim"), who, c, NULL, n, 0, &res, err);
	if (who->contended || fence_locked_out(rc, err))
		rc = claim_free(db, who, c, n, &res, err);
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

struct fence_key {
	int64_t id, version;
};

static int
by_fence(const void *key, const void *element)
{
	const struct fence_key *k = key;
	const struct run *r = *(struct run *const *)element;

	if (k->id != r->id)
		return k->id < r->id ? -1 : 1;
	return k->version < r->version ? -1 : k->version > r->version;
}

/* (ids, versions, incarnation) is what start, held and release all take; only rows that are in `only`, if it is given. */
static enum rc
fenced_query(struct db *db, const char *sql, int64_t incarnation, struct run **runs, const struct fence *only,
    size_t n, PGresult **res, struct err *err)
{
	struct pgarray ids = {0}, versions = {0};
	char inc[NUMBER_MAX];
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		if (only == NULL || only[i].state == FENCE_FREE) {
			pgarray_int(&ids, runs[i]->id);
			pgarray_int(&versions, runs[i]->version);
		}
	}
	const char *params[] = {pgarray_str(&ids), pgarray_str(&versions), number(inc, incarnation)};

	rc = db_query(db, sql, 3, params, res, err);
	pgarray_fini(&ids);
	pgarray_fini(&versions);
	return rc;
}

/* The same; when somebody has one of the rows locked, for those that are free. */
static enum rc
free_query(struct db *db, const char *sql, int64_t incarnation, struct run **runs, size_t n, PGresult **res,
    struct err *err)
{
	struct fence *rows;
	bool contended = false;
	enum rc rc;

	for (size_t i = 0; i < n; i++)
		contended = contended || runs[i]->locked;
	if (!contended) {
		rc = fenced_query(db, sql, incarnation, runs, NULL, n, res, err);
		if (!fence_locked_out(rc, err))
			return rc;
	}
	*res = NULL;
	rows = xcalloc(n + 1, sizeof *rows);
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct fence){.id = runs[i]->id, .version = runs[i]->version};
	rc = fence_open(db, rows, n, err);
	if (rc == RC_OK) {
		for (size_t i = 0; i < n; i++)
			runs[i]->locked = rows[i].state == FENCE_LOCKED;
		rc = fenced_query(db, sql, incarnation, runs, rows, n, res, err);
		rc = fence_close(db, rc, err);
	}
	if (rc != RC_OK) {
		PQclear(*res);
		*res = NULL;
	}
	free(rows);
	return rc;
}

static enum rc
start_query(struct db *db, const char *sql, int64_t incarnation, struct run **runs, size_t n, struct err *err)
{
	PGresult *res = NULL;
	enum rc rc = free_query(db, sql, incarnation, runs, n, &res, err);

	for (int i = 0; rc == RC_OK && i < PQntuples(res); i++) {
		struct fence_key key = {db_int64(res, i, ID), db_int64(res, i, VERSION)};
		struct run **r = bsearch(&key, runs, n, sizeof *runs, by_fence);

		if (r != NULL)
			fill_definition(*r, res, i);
	}
	PQclear(res);
	return rc;
}

enum rc
store_start(struct db *db, int64_t incarnation, struct run **runs, size_t n, struct err *err)
{
	size_t limited = 0;
	enum rc rc = RC_OK;

	for (size_t i = 0; i < n; i++)
		limited += runs[i]->limited ? 1 : 0;
	if (limited < n)
		rc = start_query(db, sql_text("start"), incarnation, runs, n, err);
	/* Each of the two passes by what is the other's, so both get the whole list. */
	if (rc == RC_OK && limited > 0)
		rc = start_query(db, sql_text("limit_start"), incarnation, runs, n, err);
	return rc;
}

enum rc
store_start_once(struct db *db, int64_t incarnation, bool async_ok, struct run **runs, size_t n,
    bool *durable_out, struct err *why)
{
	enum rc rc = store_durable(db, async_ok, durable_out, why);
	unsigned generation = db_generation(db);

	if (rc != RC_OK || !*durable_out)
		return rc;
	for (size_t i = 0; i < n; i++)
		runs[i]->locked = true; /* by way of a transaction of its own: fence_open */
	rc = store_start(db, incarnation, runs, n, why);
	/* Whoever answered may be another server than the one that was asked. */
	if (rc == RC_OK && generation != db_generation(db))
		rc = err_set(why, RC_UNKNOWN, "the connection was made anew while they were started");
	return rc;
}

enum rc
store_hold_drop(struct db *db, int64_t incarnation, const int64_t *batch, size_t n, struct err *err)
{
	struct pgarray batches = {0};
	char inc[NUMBER_MAX];
	enum rc rc;

	for (size_t i = 0; i < n; i++)
		pgarray_int(&batches, batch[i]);
	const char *params[] = {number(inc, incarnation), pgarray_str(&batches)};

	rc = db_query(db, sql_text("hold_drop"), 2, params, NULL, err);
	pgarray_fini(&batches);
	return rc;
}

enum rc
store_duties(struct db *db, bool *limits_out, bool *orphans_out, struct err *err)
{
	PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("duties"), 0, NULL, &res, err);

	*limits_out = rc == RC_OK && db_bool(res, 0, 2);
	*orphans_out = rc == RC_OK && db_bool(res, 0, 3);
	PQclear(res);
	return rc;
}

enum rc
store_started(struct db *db, int64_t incarnation, struct run **runs, size_t n, struct err *err)
{
	return start_query(db, sql_text("held"), incarnation, runs, n, err);
}

enum rc
store_release(
    struct db *db, int64_t incarnation, struct run **runs, size_t n, int64_t *released_out, struct err *err)
{
	PGresult *res = NULL;
	enum rc rc = free_query(db, sql_text("release"), incarnation, runs, n, &res, err);

	*released_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	PQclear(res);
	return rc;
}
