#include "db/row_lock.h"

#include <stdlib.h>
#include <string.h>

#include "db/sql.h"

bool
row_lock_refused(enum rc rc, const struct err *err)
{
	return rc == RC_AGAIN && strcmp(err->sqlstate, "55P03") == 0;
}

static int
by_id(const void *a, const void *b)
{
	const struct row_lock *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->version < y->version ? -1 : x->version > y->version;
}

enum rc
row_locks_take(struct db *db, struct row_lock *f, size_t n, struct err *err)
{
	AUTO_ARRAY struct pgarray ids = {0}, versions = {0};
	AUTO_CLEAR PGresult *res = NULL;
	/* What is promised here (the start of an at_most_once task) has to be on disk, whatever the
	 * role's settings say.
	 *
	 * Other rows that may be locked (a child, a limit) must not hold it up either; a single row waits
	 * even less, because many such transactions may follow each other. */
	enum rc rc = db_begin(db,
	    n > 1 ? "set local synchronous_commit = on; set local lock_timeout = '20ms'"
		  : "set local synchronous_commit = on; set local lock_timeout = '4ms'",
	    err);

	for (size_t i = 0; i < n; i++) {
		f[i].state = ROW_GONE;
		pgarray_int(&ids, f[i].id);
		pgarray_int(&versions, f[i].version);
	}
	const char *params[] = {pgarray_str(&ids), pgarray_str(&versions)};

	if (rc == RC_OK) {
		rc = db_query(db, sql_text("free"), 2, params, &res, err);
		if (rc != RC_OK)
			rc = row_locks_end(db, rc, err);
	}
	for (int i = 0; rc == RC_OK && i < PQntuples(res); i++) {
		struct row_lock key = {.id = db_int64(res, i, 0), .version = db_int64(res, i, 1)};
		struct row_lock *at = bsearch(&key, f, n, sizeof *f, by_id);

		if (at != NULL)
			at->state = db_bool(res, i, 2) ? ROW_FREE : ROW_LOCKED;
	}
	return rc;
}

enum rc
row_locks_end(struct db *db, enum rc rc, struct err *err)
{
	struct err ignored;

	/* A commit that rings the doorbell waits for all others in the cluster that do.  That lock is no sign
	 * of a row that a person has locked, so it gets the usual time. */
	if (rc == RC_OK)
		return db_script(db, "set local lock_timeout = '300ms'; commit", err);
	if (db_conn(db) != NULL && db_script(db, "rollback", &ignored) != RC_OK)
		db_disconnect(db);
	/* A transaction that did not commit has changed nothing, whatever happened to the statement in it. */
	return rc == RC_UNKNOWN ? RC_AGAIN : rc;
}
