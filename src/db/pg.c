/* libpq with deadlines: connect, send, wait, classify.  See pg.h for the rules. */
#include "db/pg_priv.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "db/dial.h"
#include "db/fault.h"
#include "db/sql.h"

/*
 * What our statements want of a session.  Read committed: a higher default would turn lost claims
 * into errors.  Search path: a hostile one must not reach us.  JIT compiles our short statements
 * for longer than they run (a heartbeat: 16 ms instead of 0.4).  Parallel workers take longer to start:
 * pgrab.failing without a row 10 ms instead of 0.4.
 *
 * Plans: each of our statements has one right plan, index scans from an outer list.  A table that was
 * vacuumed while empty and then filled is taken for one row, and then reading another index from end to end,
 * with a sort or a materialized copy, seems as cheap: 700 tasks/s instead of 50,000.  So those are closed.
 *
 * A connection of our own is set so once.  The servers behind a pooler are other people's too: there
 * each transaction of ours sets itself, and leaves nothing behind (pg_pooled.c, ADR 0014).
 */
const struct db_setting db_settings[] = {{"search_path", "pg_catalog, pg_temp"}, {"timezone", "UTC"},
    {"datestyle", "ISO"}, {"lock_timeout", "300ms"}, {"idle_in_transaction_session_timeout", "60s"},
    {"jit", "off"}, {"enable_seqscan", "off"}, {"enable_sort", "off"}, {"enable_material", "off"},
    {"enable_bitmapscan", "off"}, {"enable_hashjoin", "off"}, {"enable_mergejoin", "off"},
    {"max_parallel_workers_per_gather", "0"}, {NULL, NULL}};

struct db *
db_create(const char *dsn, const char *app, int64_t timeout_us)
{
	struct db *db = xcalloc(1, sizeof *db);

	db->dsn = xstrdup(dsn == NULL ? "" : dsn);
	db->app = xstrdup(app);
	db->timeout_us = timeout_us;
	db->stop_fd = -1;
	return db;
}

void
db_destroy(struct db **db)
{
	if (*db == NULL)
		return;
	db_disconnect(*db);
	free((*db)->dsn);
	free((*db)->app);
	free((*db)->zone);
	free(*db);
	*db = NULL;
}

static _Atomic int64_t open_count;

int64_t
db_open_count(void)
{
	return atomic_load(&open_count);
}

void
db_disconnect(struct db *db)
{
	if (db->conn != NULL)
		atomic_fetch_sub(&open_count, 1);
	PQfinish(db->conn);
	db->conn = NULL;
	db->since[0] = '\0';
}

void
db_plain_session(struct db *db)
{
	db->plain = true;
}

void
db_zone(struct db *db, const char *zone)
{
	free(db->zone);
	db->zone = xstrdup(zone);
}

void
db_of_node(struct db *db)
{
	db->primary = true;
}

void
db_patient(struct db *db)
{
	db->patient = true;
}

bool
db_pooled(const struct db *db)
{
	return db->pooled;
}

unsigned
db_generation(const struct db *db)
{
	return db->generation;
}

void
db_wait_for(struct db *db, int stop_fd, int64_t cancel_us)
{
	db->stop_fd = stop_fd;
	db->stop_cancel_us = cancel_us;
}

PGconn *
db_conn(struct db *db)
{
	return db->conn;
}

/* The connection went while the server worked, which may go on for all we know. */
void
db_lose(struct db *db)
{
	if (!db->plain && !db->pooled && db->since[0] != '\0') {
		db->lost_pid = db->pid;
		snprintf(db->lost_since, sizeof db->lost_since, "%s", db->since);
	}
	db_disconnect(db);
}

const char *
db_target(struct db *db)
{
	if (db->conn != NULL) {
		const char *host = PQhost(db->conn);

		snprintf(db->target, sizeof db->target, "%s@%s:%s/%s", PQuser(db->conn), host ? host : "",
		    PQport(db->conn), PQdb(db->conn));
	}
	return db->target;
}

static enum rc
set_session(struct db *db, struct err *err)
{
	struct buf sql = {0};
	enum rc rc;

	buf_adds(&sql, "set session characteristics as transaction isolation level read committed");
	for (const struct db_setting *s = db_settings; s->name != NULL; s++)
		buf_addf(&sql, "; select pg_catalog.set_config('%s', '%s', false)", s->name, s->value);
	rc = db_script(db, buf_str(&sql), err);
	buf_fini(&sql);
	return rc;
}

/* A zone that the server does not know: then it stays at UTC. */
static enum rc
set_zone(struct db *db, struct err *err)
{
	const char *params[] = {db->zone};
	enum rc rc =
	    db_query(db, "select pg_catalog.set_config('timezone', $1, false)", 1, params, NULL, err);

	return rc == RC_BAD ? RC_OK : rc;
}

/* Before anything is asked on a new connection: what the old one was at is over. */
static enum rc
settle_in(struct db *db, struct err *err)
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

enum rc
db_connect(struct db *db, struct err *err)
{
	enum rc rc;

	if (db->conn != NULL && PQstatus(db->conn) == CONNECTION_OK)
		return RC_OK;
	db_disconnect(db);
	rc = dial_server(db->dsn, db->app, db->timeout_us, db->primary, &db->conn, err);
	if (rc == RC_OK) {
		db->generation++;
		atomic_fetch_add(&open_count, 1);
		PQsetnonblocking(db->conn, 1);
		rc = db->plain ? RC_OK : settle_in(db, err);
		if (rc == RC_UNKNOWN || rc == RC_BAD)
			rc = RC_AGAIN;
	}
	if (rc != RC_OK)
		db_disconnect(db);
	return rc == RC_BAD && db->patient ? RC_AGAIN : rc;
}

/* What an error answer of the server means for the caller.  An error answer also means: this statement did
 * not commit. */
enum rc
db_classify(const struct db *db, const PGresult *r, struct err *err)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);
	const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
	enum rc rc;

	if (state == NULL) {
		char line[300];

		dial_one_line(line, sizeof line, PQresultErrorMessage(r));
		return err_set(err, RC_UNKNOWN, "connection lost: %s", line);
	}
	/* FATAL: terminated while it worked, so the commit may be through. */
	rc = severity != NULL && strcmp(severity, "FATAL") == 0 ? RC_UNKNOWN : fault_rc(state, db->patient);
	err_set(err, rc, "%s%s%s", message ? message : "error", hint ? ". " : "", hint ? hint : "");
	if (err != NULL) {
		snprintf(err->sqlstate, sizeof err->sqlstate, "%s", state);
		if (hint != NULL && message != NULL && strlen(message) + 2 < strlen(err->text))
			err->hint_at = strlen(message) + 2;
	}
	return rc;
}

enum rc
db_lost(struct db *db, struct err *err)
{
	char line[300];

	dial_one_line(line, sizeof line, PQerrorMessage(db->conn));
	db_lose(db);
	return err_set(err, RC_UNKNOWN, "connection lost: %s", line);
}

enum rc
db_flush(struct db *db, int64_t until_us, struct err *err)
{
	int left;

	while ((left = PQflush(db->conn)) == 1) {
		if (!dial_wait_socket(db->conn, true, until_us, -1, NULL) || !PQconsumeInput(db->conn)) {
			db_lose(db);
			return err_set(err, RC_UNKNOWN, "could not send within the deadline");
		}
	}
	return left == 0 ? RC_OK : db_lost(db, err);
}

/* Reads until the server is idle again.  The first error or the last rows count. */
static enum rc
collect(struct db *db, int64_t until_us, int stop_fd, bool *stopped_out, PGresult **out, struct err *err)
{
	enum rc rc = RC_OK;
	PGresult *r;

	for (;;) {
		while (PQisBusy(db->conn)) {
			if (!dial_wait_socket(db->conn, false, until_us, stop_fd, stopped_out)) {
				if (stopped_out != NULL && *stopped_out)
					return RC_CLOSED; /* the caller cancels and comes back */
				db_lose(db);
				return err_set(
				    err, RC_UNKNOWN, "no answer from the server within the deadline");
			}
			if (!PQconsumeInput(db->conn))
				return db_lost(db, err);
		}
		r = PQgetResult(db->conn);
		if (r == NULL)
			break;
		ExecStatusType st = PQresultStatus(r);

		if (st == PGRES_COPY_IN || st == PGRES_COPY_OUT || st == PGRES_COPY_BOTH) {
			PQclear(r); /* no statement of ours does; end it by force */
			db_disconnect(db);
			return err_set(err, RC_BAD, "COPY from or to the client is not possible here");
		}
		if (st != PGRES_TUPLES_OK && st != PGRES_COMMAND_OK && st != PGRES_EMPTY_QUERY && rc == RC_OK)
			rc = db_classify(db, r, err);
		if (rc == RC_OK && out != NULL) {
			PQclear(*out);
			*out = r;
		} else {
			PQclear(r);
		}
	}
	if (PQstatus(db->conn) != CONNECTION_OK) {
		db_lose(db);
		if (rc == RC_OK)
			rc = err_set(err, RC_UNKNOWN, "connection lost");
	}
	return rc;
}

static enum rc
finish(enum rc rc, PGresult **out)
{
	if (rc != RC_OK && out != NULL) {
		PQclear(*out);
		*out = NULL;
	}
	return rc;
}

enum rc
db_query(
    struct db *db, const char *sql, int n_params, const char *const *params, PGresult **out, struct err *err)
{
	enum rc rc;
	bool stopped;
	int64_t until;

	if (out != NULL)
		*out = NULL;
	if (db->stop_fd >= 0 && out != NULL)
		return db_query_stoppable(
		    db, sql, n_params, params, db->stop_fd, db->stop_cancel_us, &stopped, out, err);
	rc = db_connect(db, err);
	if (rc != RC_OK)
		return rc;
	until = clock_mono_us() + db->timeout_us;
	if (db->pooled && !db->plain && PQtransactionStatus(db->conn) == PQTRANS_IDLE)
		return finish(db_query_pooled(db, sql, n_params, params, until, out, err), out);
	if (!PQsendQueryParams(db->conn, sql, n_params, NULL, params, NULL, NULL, 0))
		return db_lost(db, err);
	rc = db_flush(db, until, err);
	if (rc == RC_OK)
		rc = collect(db, until, -1, NULL, out, err);
	return finish(rc, out);
}

enum rc
db_script(struct db *db, const char *sql, struct err *err)
{
	enum rc rc = db->conn != NULL ? RC_OK : db_connect(db, err);
	int64_t until = clock_mono_us() + db->timeout_us;

	if (rc != RC_OK)
		return rc;
	if (!PQsendQuery(db->conn, sql))
		return db_lost(db, err);
	rc = db_flush(db, until, err);
	return rc == RC_OK ? collect(db, until, -1, NULL, NULL, err) : rc;
}

enum rc
db_query_stoppable(struct db *db, const char *sql, int n_params, const char *const *params, int stop_fd,
    int64_t cancel_us, bool *stopped_out, PGresult **out, struct err *err)
{
	enum rc rc = db_connect(db, err);

	*stopped_out = false;
	*out = NULL;
	if (rc != RC_OK)
		return rc;
	if (!PQsendQueryParams(db->conn, sql, n_params, NULL, params, NULL, NULL, 0))
		return db_lost(db, err);
	rc = db_flush(db, clock_mono_us() + db->timeout_us, err);
	if (rc == RC_OK)
		rc = collect(db, CLOCK_NEVER, stop_fd, stopped_out, out, err);
	if (rc == RC_CLOSED) {
		int64_t until = clock_mono_us() + cancel_us;

		rc = db_cancel(db, until, err);
		if (rc == RC_OK)
			rc = collect(db, until, -1, NULL, out, err);
	}
	return finish(rc, out);
}
