/* What a new connection is told before it is used. */
#include "db/pg_priv.h"

#include <string.h>

#include "base/buf.h"
#include "db/sql.h"

/*
 * What our statements want of a session.  Read committed: a higher default would turn lost claims
 * into errors.  Search path: a hostile one must not reach us.  JIT compiles our short statements
 * for longer than they run (a heartbeat: 16 ms instead of 0.4).  Parallel workers take longer to start:
 * pgrab.failing without a row 10 ms instead of 0.4.  A null in an array is a null, whatever an old
 * application wanted of its database.
 *
 * Plans: each of our statements has one right plan, index scans from an outer list.  A table that was
 * vacuumed while empty and then filled looks to the planner as if it had one row, and then reading another
 * index from end to end, with a sort or a materialized copy, seems as cheap: 700 tasks/s instead of 50,000.
 * So those ways are closed.
 *
 * A connection of our own is set up once.  The servers behind a pooler are shared with other clients: there
 * each of our transactions makes its own settings, and leaves nothing behind (pg_pooled.c, ADR 0015).
 */
const struct db_setting db_settings[] = {{"search_path", "pg_catalog, pg_temp"}, {"timezone", "UTC"},
    {"datestyle", "ISO"}, {"array_nulls", "on"}, {"lock_timeout", "300ms"},
    {"idle_in_transaction_session_timeout", "60s"}, {"jit", "off"}, {"enable_seqscan", "off"},
    {"enable_sort", "off"}, {"enable_material", "off"}, {"enable_bitmapscan", "off"},
    {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"}, {"max_parallel_workers_per_gather", "0"},
    {NULL, NULL}};

static enum rc
set_session(struct db *db, struct err *err)
{
	struct buf sql = {0};
	enum rc rc;

	buf_adds(&sql, "set session characteristics as transaction isolation level read committed");
	for (const struct db_setting *s = db_settings; s->name != NULL; s++)
		buf_addf(&sql, "; select pg_catalog.set_config('%s', '%s', false)", s->name, s->value);
	if (db->keeps) /* each has one right plan, see above */
		buf_adds(&sql, "; set plan_cache_mode = force_generic_plan");
	rc = db_script(db, buf_str(&sql), err);
	buf_fini(&sql);
	return rc;
}

/* If the server does not know the zone it stays at UTC. */
static enum rc
set_zone(struct db *db, struct err *err)
{
	const char *params[] = {db->zone};
	enum rc rc =
	    db_query(db, "select pg_catalog.set_config('timezone', $1, false)", 1, params, NULL, err);

	return rc == RC_BAD ? RC_OK : rc;
}

enum rc
db_settle_in(struct db *db, struct err *err)
{
	char pid[16];
	const char *params[] = {pid, db->lost_since};
	PGresult *res = NULL;
	enum rc rc;

	db->pooled = false; /* until we know */
	rc = db_query(
	    db, "select pg_catalog.pg_backend_pid(), pg_catalog.clock_timestamp()", 0, NULL, &res, err);
	/* A pooler makes up the number by which a client would cancel. */
	db->pooled = rc == RC_OK && db_int64(res, 0, 0) != PQbackendPID(db->conn);
	if (rc == RC_OK && !db->pooled)
		rc = set_session(db, err);
	if (rc == RC_OK && !db->pooled && db->zone != NULL)
		rc = set_zone(db, err);
	if (rc == RC_OK && db->lost_pid != 0) {
		snprintf(pid, sizeof pid, "%d", db->lost_pid);
		rc = db_query(db, sql_text("end_lost"), 2, params, NULL, err);
	}
	if (rc == RC_OK) {
		db->lost_pid = 0;
		db->pid = PQbackendPID(db->conn);
		snprintf(db->since, sizeof db->since, "%s", db_text(res, 0, 1));
	}
	PQclear(res);
	return rc;
}
