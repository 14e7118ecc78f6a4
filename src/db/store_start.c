/* Starting and releasing.  See store_task.h. */
#include "db/store_task.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "db/row_lock.h"
#include "db/sql.h"
#include "db/store_node.h"
#include "db/store_priv.h"

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

/* (ids, versions, incarnation) is what start, held and release all take; only rows that are in
 * `only`, if it is given. */
static enum rc
fenced_query(struct db *db, const char *sql, int64_t incarnation, struct run **runs,
    const struct row_lock *only, size_t n, PGresult **res, struct err *err)
{
	AUTO_ARRAY struct pgarray ids = {0}, versions = {0};

	for (size_t i = 0; i < n; i++) {
		if (only == NULL || only[i].state == ROW_FREE) {
			pgarray_int(&ids, runs[i]->id);
			pgarray_int(&versions, runs[i]->version);
		}
	}
	const char *params[] = {pgarray_str(&ids), pgarray_str(&versions), NUMBER(incarnation)};

	return db_query(db, sql, 3, params, res, err);
}

static void
none_locked(struct run **runs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		runs[i]->place.locked = false;
}

/* As fenced_query; when another session has one of the rows locked, only for those that are free. */
static enum rc
free_query(struct db *db, const char *sql, const struct holder *who, struct run **runs, size_t n,
    PGresult **res, struct err *err)
{
	AUTO_FREE struct row_lock *rows = NULL;
	enum rc rc;

	if (!who->contended) {
		rc = fenced_query(db, sql, who->incarnation, runs, NULL, n, res, err);
		if (!row_lock_refused(rc, err))
			return rc;
	}
	*res = NULL;
	rows = xcalloc(n + 1, sizeof *rows);
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row_lock){.id = runs[i]->id, .version = runs[i]->version};
	rc = row_locks_take(db, rows, n, err);
	if (rc == RC_OK) {
		for (size_t i = 0; i < n; i++)
			runs[i]->place.locked |= rows[i].state == ROW_LOCKED;
		rc = fenced_query(db, sql, who->incarnation, runs, rows, n, res, err);
		rc = row_locks_end(db, rc, err);
	}
	if (rc != RC_OK) {
		PQclear(*res);
		*res = NULL;
	}
	return rc;
}

/* What the rows that came say of their runs. */
static void
fill_definitions(struct run **runs, size_t n, const PGresult *res)
{
	for (int i = 0; i < PQntuples(res); i++) {
		struct fence_key key = {db_int64(res, i, ID), db_int64(res, i, VERSION)};
		struct run **r = bsearch(&key, runs, n, sizeof *runs, by_fence);

		if (r != NULL && !(*r)->started)
			store_fill_definition(*r, res, i);
	}
}

static enum rc
start_query(
    struct db *db, const char *sql, const struct holder *who, struct run **runs, size_t n, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = free_query(db, sql, who, runs, n, &res, err);

	if (rc == RC_OK)
		fill_definitions(runs, n, res);
	return rc;
}

/* Those that need a place under a limit or a quota, as their claim has said, or the others. */
static enum rc
start_some(
    struct db *db, const struct holder *who, struct run **runs, size_t n, bool limited, struct err *err)
{
	AUTO_FREE struct run **some = xcalloc(n + 1, sizeof(struct run *));
	size_t k = 0;
	enum rc rc = RC_OK;

	for (size_t i = 0; i < n; i++)
		if (runs[i]->limited == limited)
			some[k++] = runs[i];
	if (k > 0 || (n == 0 && !limited))
		rc = start_query(db, sql_text(limited ? "limit_start" : "start"), who, some, k, err);
	return rc;
}

enum rc
store_start(struct db *db, const struct holder *who, struct run **runs, size_t n, struct err *err)
{
	enum rc rc;

	db_within(db, who->within_us);
	none_locked(runs, n);
	rc = start_some(db, who, runs, n, false, err);
	if (rc == RC_OK)
		rc = start_some(db, who, runs, n, true, err);
	db_within(db, 0);
	return rc;
}

enum rc
store_start_once(struct db *db, int64_t incarnation, bool async_ok, struct run **runs, size_t n,
    bool *durable_out, struct err *why)
{
	enum rc rc = store_durable(db, async_ok, durable_out, why);
	unsigned generation = db_generation(db);
	/* by way of a transaction of its own: row_locks_take */
	const struct holder who = {.incarnation = incarnation, .contended = true};

	if (rc != RC_OK || !*durable_out)
		return rc == RC_UNKNOWN ? RC_AGAIN : rc; /* nothing has been started yet */
	rc = store_start(db, &who, runs, n, why);
	/* Another server than the one that was asked may have answered. */
	if (rc == RC_OK && generation != db_generation(db))
		rc = err_set(why, RC_UNKNOWN, "the connection was made again while they were started");
	return rc;
}

enum rc
store_started(struct db *db, int64_t incarnation, struct run **runs, size_t n, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = fenced_query(db, sql_text("held"), incarnation, runs, NULL, n, &res, err);

	if (rc == RC_OK)
		fill_definitions(runs, n, res);
	return rc;
}

enum rc
store_release(struct db *db, const struct holder *who, struct run **runs, size_t n, int64_t *released_out,
    struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	none_locked(runs, n);
	db_within(db, who->within_us);
	rc = free_query(db, sql_text("release"), who, runs, n, &res, err);
	db_within(db, 0);
	*released_out = rc == RC_OK ? db_int64(res, 0, 0) : 0;
	return rc;
}
