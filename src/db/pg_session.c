/* What a new connection is told before it is used. */
#include "db/pg_priv.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

#include "base/buf.h"
#include "base/clock.h"
#include "db/sql.h"

/*
 * What our statements want of a session.  Read committed: a higher default would turn lost claims
 * into errors.  Search path: a hostile one must not reach us.  JIT compiles our short statements
 * for longer than they run (a heartbeat: 16 ms instead of 0.4).  Parallel workers take longer to start:
 * pgrab.failing without a row 10 ms instead of 0.4.  A null in an array is a null, and a backslash one,
 * whatever an old application wanted of its database; what a policy hides is hidden, and no error.  Our
 * calls have deadlines of their own: a statement_timeout of the role would end what takes longer, again and
 * again.  (Where it should end, DB_ENDS, it is our deadline.)
 *
 * Plans: each of our statements has one right plan, index scans from an outer list.  A table that was
 * vacuumed while empty and then filled looks to the planner as if it had one row, and then reading another
 * index from end to end, with a sort or a materialized copy, seems as cheap: 700 tasks/s instead of 50,000.
 * So those ways are closed, and the right ones open, whatever the database's own default is.
 *
 * A connection of our own is set up once.  The servers behind a pooler are shared with other clients: there
 * each of our transactions makes its own settings, and leaves nothing behind (pg_pooled.c, ADR 0015).
 */
const struct db_setting db_settings[] = {{"search_path", "pg_catalog, pg_temp"}, {"timezone", "UTC"},
    {"datestyle", "ISO"}, {"array_nulls", "on"}, {"standard_conforming_strings", "on"},
    {"row_security", "on"}, {"lock_timeout", "300ms"}, {"statement_timeout", "0"},
    {"idle_in_transaction_session_timeout", "60s"}, {"idle_session_timeout", "0"}, {"jit", "off"},
    {"enable_indexscan", "on"}, {"enable_nestloop", "on"}, {"enable_seqscan", "off"}, {"enable_sort", "off"},
    {"enable_material", "off"}, {"enable_bitmapscan", "off"}, {"enable_hashjoin", "off"},
    {"enable_mergejoin", "off"}, {"max_parallel_workers_per_gather", "0"}, {NULL, NULL}};

#define ZONE_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_+-"

static void
add_setting(struct buf *sql, const char *name, const char *value)
{
	buf_addf(sql, ", case when s.ours then pg_catalog.set_config('%s', '%s', false) end", name, value);
}

/* Which server answers, and when; the settings are made by the same statement, unless that is a pooler's. */
static enum rc
introduce(struct db *db, PGresult **res, struct err *err)
{
	char pid[16];
	const char *params[] = {pid};
	AUTO_BUF struct buf sql = {0};

	snprintf(pid, sizeof pid, "%d", PQbackendPID(db->conn));
	buf_adds(&sql, "select s.pid, pg_catalog.clock_timestamp()");
	add_setting(&sql, "default_transaction_isolation", "read committed");
	for (const struct db_setting *s = db_settings; s->name != NULL; s++)
		add_setting(&sql, s->name, s->value);
	if ((db->traits & DB_KEEPS) != 0) /* each has one right plan, see above */
		add_setting(&sql, "plan_cache_mode", "force_generic_plan");
	if ((db->traits & DB_ENDS) != 0)
		add_setting(&sql, "statement_timeout", NUMBER(db->timeout_us / US_PER_MS));
	if (db->server != NULL)
		buf_adds(&sql,
		    ", (select m.system_identifier from pg_catalog.pg_control_system() m), case when not "
		    "pg_catalog.pg_is_in_recovery() then pg_catalog.left(pg_catalog.pg_walfile_name("
		    "pg_catalog.pg_current_wal_lsn()), 8) end");
	buf_adds(&sql, " from (select p.pid, p.pid operator(pg_catalog.=) $1::pg_catalog.int4 "
		       "from pg_catalog.pg_backend_pid() p(pid)) s(pid, ours)");
	return db_query(db, buf_str(&sql), 1, params, res, err);
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

const char *
db_zone_name(const struct db *db)
{
	return db->zone == NULL ? "UTC" : db->zone;
}

enum rc
db_zone_now(struct db *db, const char *zone, struct err *err)
{
	static const char *const set = "select pg_catalog.set_config('timezone', $1, false)";
	const char *params[] = {zone};
	enum rc rc = RC_OK;

	if (strcmp(zone, db_zone_name(db)) == 0)
		return RC_OK;
	if (zone[strspn(zone, ZONE_LETTERS)] != '\0') {
		(void)err_set(err, RC_BAD, "there is no time zone \"%.60s\"", zone);
		snprintf(err->sqlstate, sizeof err->sqlstate, "22023");
		return RC_BAD;
	}
	if (db->conn != NULL && !db->pooled)
		rc = db_query(db, set, 1, params, NULL, err);
	if (rc != RC_OK)
		return rc;
	free(db->zone);
	db->zone = xstrdup(zone);
	db->zone_known = true;
	return RC_OK;
}

uint64_t
db_server_key(int64_t system, const char *timeline)
{
	uint64_t key = (uint64_t)system * 0x9E3779B97F4A7C15u + strtoull(timeline, NULL, 16);

	return key == 0 ? 1 : key;
}

/* What is held under this node's incarnation is held on the server that the heartbeat speaks with.  Another
 * one may lack some of it: so nothing is said there before the heartbeat has seen it and knows what that
 * means. */
static enum rc
check_server(struct db *db, const PGresult *res, struct err *err)
{
	int n = PQnfields(res);

	if (db->server == NULL || db->pooled)
		return RC_OK;
	db->key = db_server_key(db_int64(res, 0, n - 2), db_text(res, 0, n - 1));
	if (!db_is_elsewhere(db))
		return RC_OK;
	return err_set(err, RC_AGAIN,
	    "the server that answers has changed, and the heartbeat has not seen this one yet");
}

/* What the connection before it was doing, if the server is the same. */
static enum rc
end_lost(struct db *db, struct err *err)
{
	char pid[16];
	const char *params[] = {pid, db->lost_since};

	if (db->lost_pid == 0 || db->lost_key != db->key)
		return RC_OK;
	snprintf(pid, sizeof pid, "%d", db->lost_pid);
	return db_query(db, sql_text("end_lost"), 2, params, NULL, err);
}

enum rc
db_settle_in(struct db *db, struct err *err)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	db->pooled = false; /* until we know */
	rc = introduce(db, &res, err);
	/* A pooler makes up the number by which a client would cancel. */
	db->pooled = rc == RC_OK && db_int64(res, 0, 0) != PQbackendPID(db->conn);
	if (rc == RC_OK && !db->pooled && db->zone != NULL)
		rc = set_zone(db, err);
	if (rc == RC_OK)
		rc = check_server(db, res, err);
	if (rc == RC_OK)
		rc = end_lost(db, err);
	if (rc == RC_OK) {
		db->lost_pid = 0;
		db->pid = PQbackendPID(db->conn);
		snprintf(db->since, sizeof db->since, "%s", db_text(res, 0, 1));
	}
	return rc;
}
