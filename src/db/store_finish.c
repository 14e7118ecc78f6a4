/* Outcomes, recovery, and the history's partitions; see store_task.h. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "db/row_lock.h"
#include "db/sql.h"
#include "db/store_task.h"

/* The parameter arrays of finish.sql, in their order. */
enum {
	A_ID,
	A_VERSION,
	A_INCARNATION,
	A_BEGUN,
	A_ENDED,
	A_EXIT,
	A_OUTPUT,
	A_CUT,
	A_OUTCOME,
	A_ERROR,
	A_RETRY,
	A_COST,
	A__COUNT
};

/* A pgrab_internal.cost. */
static void
add_cost(struct pgarray *a, const struct run_cost *c)
{
	char cpu[NUMBER_MAX] = "", memory[NUMBER_MAX] = "", output[NUMBER_MAX] = "", text[3 * NUMBER_MAX + 8];

	if (c->cpu_us == 0 && c->memory_bytes == 0 && c->output_bytes == 0) {
		pgarray_null(a);
		return;
	}
	if (c->cpu_us > 0)
		db_number(cpu, c->cpu_us);
	if (c->memory_bytes > 0)
		db_number(memory, c->memory_bytes);
	if (c->output_bytes > 0)
		db_number(output, c->output_bytes);
	snprintf(text, sizeof text, "(%s%s,%s,%s)", cpu, cpu[0] == '\0' ? "" : "e-6", memory, output);
	pgarray_text(a, text);
}

static void
add_finish(struct pgarray a[A__COUNT], const struct finish *f)
{
	pgarray_int(&a[A_ID], f->id);
	pgarray_int(&a[A_VERSION], f->version);
	pgarray_int(&a[A_INCARNATION], f->incarnation);
	pgarray_int(&a[A_BEGUN], f->begun_ago_us);
	pgarray_int(&a[A_ENDED], f->ended_ago_us);
	if (f->has_exit_code)
		pgarray_int(&a[A_EXIT], f->exit_code);
	else
		pgarray_null(&a[A_EXIT]);
	pgarray_text(&a[A_OUTPUT], f->output);
	pgarray_text(&a[A_CUT], f->output_truncated ? "t" : NULL);
	pgarray_text(&a[A_OUTCOME], outcome_name(f->outcome));
	pgarray_text(&a[A_ERROR], f->error);
	if (f->retry_us == RETRY_DEFAULT)
		pgarray_null(&a[A_RETRY]);
	else
		pgarray_int(&a[A_RETRY], f->retry_us);
	add_cost(&a[A_COST], &f->cost);
}

static bool
before(const struct finish *f, int64_t id, int64_t version)
{
	return f->id < id || (f->id == id && f->version < version);
}

/* Results name (id, version), and the finishes are sorted by them. */
static void
mark_applied(const PGresult *res, struct finish *const *f, size_t n)
{
	for (int i = 0; i < PQntuples(res); i++) {
		int64_t id = db_int64(res, i, 0), version = db_int64(res, i, 1);
		size_t low = 0, high = n;

		while (low < high) {
			size_t mid = low + (high - low) / 2;

			if (before(f[mid], id, version))
				low = mid + 1;
			else
				high = mid;
		}
		if (low < n && f[low]->id == id && f[low]->version == version)
			f[low]->applied = true;
	}
}

/* As far as we know, is it still to be recorded? */
static bool
open_end(const struct finish *f)
{
	return !f->applied && !f->locked && !f->refused;
}

static enum rc
finish_here(struct db *db, const struct recorder *who, struct finish *const *f, size_t n, struct err *err)
{
	struct pgarray a[A__COUNT] = {0};
	AUTO_CLEAR PGresult *res = NULL;
	size_t asked = 0;
	enum rc rc = RC_OK;

	for (size_t i = 0; i < n; i++) {
		if (open_end(f[i])) {
			add_finish(a, f[i]);
			asked++;
		}
	}
	const char *params[] = {pgarray_str(&a[A_ID]), pgarray_str(&a[A_VERSION]),
	    pgarray_str(&a[A_INCARNATION]), pgarray_str(&a[A_BEGUN]), pgarray_str(&a[A_ENDED]),
	    pgarray_sparse(&a[A_EXIT]), pgarray_sparse(&a[A_OUTPUT]), pgarray_sparse(&a[A_CUT]),
	    NUMBER(who->node_id), who->node, pgarray_str(&a[A_OUTCOME]), pgarray_sparse(&a[A_ERROR]),
	    pgarray_sparse(&a[A_RETRY]), pgarray_sparse(&a[A_COST])};

	if (asked > 0)
		rc = db_query(db, sql_text("finish"), A__COUNT + 2, params, &res, err);
	if (asked > 0 && rc == RC_OK)
		mark_applied(res, f, n);
	for (int i = 0; i < A__COUNT; i++)
		pgarray_fini(&a[i]);
	return rc;
}

/* Finishes those of f[0..n) that no other session has locked, in a transaction that has locked them. */
static enum rc
finish_free(struct db *db, const struct recorder *who, struct finish *const *f, size_t n, struct err *err)
{
	AUTO_FREE struct row_lock *rows = xcalloc(n + 1, sizeof *rows);
	AUTO_FREE struct finish **mine = xcalloc(n + 1, sizeof *mine);
	size_t k = 0, n_free = 0;
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		if (open_end(f[i])) {
			rows[k] = (struct row_lock){.id = f[i]->id, .version = f[i]->version};
			mine[k++] = f[i];
		}
	}
	rc = row_locks_take(db, rows, k, err);
	for (size_t i = 0; rc == RC_OK && i < k; i++) {
		mine[i]->locked = rows[i].state == ROW_LOCKED;
		/* One whose row is gone may still hold a place under a limit. */
		if (rows[i].state != ROW_LOCKED)
			mine[n_free++] = mine[i];
	}
	if (rc == RC_OK) {
		if (n_free > 0)
			rc = finish_here(db, who, mine, n_free, err);
		rc = row_locks_end(db, rc, err);
	}
	for (size_t i = 0; rc != RC_OK && i < n_free; i++)
		mine[i]->applied = false;
	return rc;
}

static enum rc
finish_all(struct db *db, const struct recorder *who, struct finish *const *f, size_t n, struct err *err)
{
	enum rc rc = RC_OK;

	if (!who->contended) {
		rc = finish_here(db, who, f, n, err);
		if (!row_lock_refused(rc, err))
			return rc;
	}
	rc = finish_free(db, who, f, n, err);
	if (!row_lock_refused(rc, err))
		return rc;
	/* What is locked is not a row of the batch but a related one (a child, say): one by one, then. */
	rc = RC_OK;
	for (size_t i = 0; i < n && rc == RC_OK; i++) {
		if (!open_end(f[i]))
			continue;
		rc = finish_free(db, who, &f[i], 1, err);
		if (row_lock_refused(rc, err)) {
			f[i]->locked = true;
			rc = RC_OK;
		}
	}
	return rc;
}

enum rc
store_finish(struct db *db, const struct recorder *who, struct finish *const *f, size_t n, struct err *err)
{
	enum rc rc;

	db_within(db, who->within_us);
	rc = finish_all(db, who, f, n, err);
	db_within(db, 0);
	return rc;
}

enum rc
store_park(struct db *db, const struct recorder *who, struct finish *f, const char *why, bool history,
    struct err *err)
{
	const char *params[] = {NUMBER(f->id), NUMBER(f->version), NUMBER(f->incarnation),
	    outcome_name(f->outcome), why, who->node, history ? "t" : "f"};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("park"), 7, params, &res, err);

	if (rc == RC_OK)
		mark_applied(res, &f, 1);
	return rc;
}

enum rc
store_recorded(struct db *db, struct finish *const *f, size_t n, struct err *err)
{
	struct pgarray a[3] = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	for (size_t i = 0; i < n; i++) {
		pgarray_int(&a[0], f[i]->id);
		pgarray_int(&a[1], f[i]->version);
		pgarray_int(&a[2], f[i]->incarnation);
	}
	const char *params[] = {pgarray_str(&a[0]), pgarray_str(&a[1]), pgarray_str(&a[2])};

	rc = db_query(db, sql_text("recorded"), 3, params, &res, err);
	if (rc == RC_OK)
		mark_applied(res, f, n);
	for (int i = 0; i < 3; i++)
		pgarray_fini(&a[i]);
	return rc;
}

static enum rc
end_orphans(struct db *db, int64_t *kept_out, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("end_orphans"), 0, NULL, &res, err);

	*kept_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	return rc;
}

static int
by_incarnation(const void *a, const void *b)
{
	const struct lost *x = a, *y = b;

	if (x->incarnation != y->incarnation)
		return x->incarnation < y->incarnation ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

enum rc
store_lost(
    struct db *db, int64_t incarnation, struct lost **out, size_t *n_out, int64_t *kept_out, struct err *err)
{
	const char *params[] = {incarnation == 0 ? NULL : NUMBER(incarnation)};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = end_orphans(db, kept_out, err);

	*out = NULL;
	*n_out = 0;
	if (rc == RC_OK)
		rc = db_query(db, sql_text("lost"), 1, params, &res, err);
	if (rc == RC_OK) {
		*n_out = (size_t)PQntuples(res);
		*out = xcalloc(*n_out + 1, sizeof **out);
		for (size_t i = 0; i < *n_out; i++)
			(*out)[i] = (struct lost){db_int64(res, (int)i, 0), .id = db_int64(res, (int)i, 1)};
		qsort(*out, *n_out, sizeof **out, by_incarnation);
	}
	return rc;
}

enum rc
store_recover(struct db *db, const struct recovery *what, struct recovered *out, struct err *err)
{
	AUTO_ARRAY struct pgarray only = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	for (size_t i = 0; what->only != NULL && i < what->n; i++) {
		if (what->only[i].id != 0)
			pgarray_int(&only, what->only[i].id);
	}
	const char *params[] = {
	    what->by, NUMBER(what->incarnation), what->only == NULL ? NULL : pgarray_str(&only)};

	*out = (struct recovered){0};
	db_within(db, what->within_us);
	rc = db_query(db, sql_text("recover"), 3, params, &res, err);
	db_within(db, 0);
	if (rc == RC_OK)
		*out = (struct recovered){.all = db_int64(res, 0, 0),
		    .running = db_int64(res, 0, 1),
		    .parked = db_int64(res, 0, 2)};
	return rc;
}

enum rc
store_own(
    struct db *db, int64_t incarnation, int64_t older_us, struct owned **out, size_t *n_out, struct err *err)
{
	const char *params[] = {NUMBER(incarnation), NUMBER(older_us)};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("own"), 2, params, &res, err);

	*out = NULL;
	*n_out = 0;
	if (rc == RC_OK) {
		*n_out = (size_t)PQntuples(res);
		*out = xcalloc(*n_out + 1, sizeof **out);
		for (size_t i = 0; i < *n_out; i++) {
			(*out)[i].id = db_int64(res, (int)i, 0);
			(*out)[i].version = db_int64(res, (int)i, 1);
			(*out)[i].running = strcmp(db_text(res, (int)i, 2), "running") == 0;
		}
	}
	return rc;
}

enum rc
store_days(struct db *db, struct err *err)
{
	return db_query(db, sql_text("days"), 0, NULL, NULL, err);
}

enum rc
store_upkeep(struct db *db, int64_t retention_us, struct err *err)
{
	const char *params[] = {NUMBER(retention_us)};
	enum rc rc = store_days(db, err);

	return rc == RC_OK ? db_query(db, sql_text("upkeep"), 1, params, NULL, err) : rc;
}
