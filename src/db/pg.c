/*
 * libpq with deadlines: connect, send, wait, classify.  See pg.h for the rules.
 */
#include "db/pg.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/aside.h"
#include "db/sql.h"

struct db {
	char *dsn;
	char *app;
	char *zone; /* of times in results; NULL: UTC */
	int64_t timeout_us;
	bool plain;     /* no session settings */
	PGconn *conn;   /* NULL, or a connection that was usable after its last call */
	int pid;        /* its backend, which libpq does not tell any more when the connection is lost */
	char since[48]; /* a moment at which it was there, on the database's clock; "": not settled in */
	int lost_pid;   /* of a backend that may still work on a statement of ours, or 0 */
	char lost_since[48];
	char target[256];
};

/*
 * Not needed for correctness (a pooler may lose them).  Read committed: a higher default would turn lost claims into errors.
 * Search path: a hostile one must not reach us.  JIT compiles our short statements for longer than they run (a heartbeat:
 * 16 ms instead of 0.4).
 *
 * Plans: each of our statements has one right plan, index scans from an outer list.  A table that was vacuumed while it
 * was empty and then filled is taken for one row, and then reading another index from end to end, with a sort or a
 * materialized copy, seems as cheap: seen at 700 tasks/s instead of 50,000.  So those ways are closed.
 */
static const char session_sql[] =
    "set session characteristics as transaction isolation level read committed;"
    "set search_path = pg_catalog, pg_temp; set timezone = 'UTC'; set datestyle = 'ISO';"
    "set lock_timeout = '300ms'; set idle_in_transaction_session_timeout = '60s'; set jit = off;"
    "set enable_seqscan = off; set enable_sort = off; set enable_material = off; set enable_bitmapscan = off;"
    "set enable_hashjoin = off; set enable_mergejoin = off";

struct db *
db_create(const char *dsn, const char *app, int64_t timeout_us)
{
	struct db *db = xcalloc(1, sizeof *db);

	db->dsn = xstrdup(dsn == NULL ? "" : dsn);
	db->app = xstrdup(app);
	db->timeout_us = timeout_us;
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

void
db_disconnect(struct db *db)
{
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

PGconn *
db_conn(struct db *db)
{
	return db->conn;
}

/* The connection went while the server worked, which may go on for all we know. */
static void
lose(struct db *db)
{
	if (!db->plain && db->since[0] != '\0') {
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

/* One line, blanks folded, without libpq's trailing newline. */
static void
one_line(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; text != NULL && *text != '\0' && n + 1 < size; text++) {
		bool blank = *text == '\n' || *text == '\t' || *text == ' ';

		if (!blank || (n > 0 && out[n - 1] != ' '))
			out[n++] = blank ? ' ' : *text;
	}
	while (n > 0 && out[n - 1] == ' ')
		n--;
	out[n] = '\0';
	/* libpq's guess at why adds nothing. */
	char *guess = strstr(out, " This probably means");

	if (guess != NULL)
		*guess = '\0';
}

/*
 * A refusal for good while connecting has an SQLSTATE that libpq 15 does not hand out; its text does.
 * Everything that is not plainly a refusal is taken as transient: waiting is safe, giving up is not.
 */
static enum rc
connect_refusal(const char *why, struct err *err)
{
	static const char *const final[] = {"password authentication failed", "no password supplied",
	    "does not exist", "is not permitted to log in", "no pg_hba.conf entry",
	    "invalid connection option", "missing \"=\"", "invalid port", "certificate",
	    "authentication failed", "invalid sslmode", "permission denied for database",
	    "could not translate host name", "definition of service"};
	char line[400];

	one_line(line, sizeof line, why);
	for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
		/* A socket file that is not there yet reads "No such file or directory ... Is the server
		 * running": transient. */
		if (strstr(line, final[i]) != NULL)
			return err_set(err, RC_BAD, "could not connect: %s", line);
	}
	return err_set(err, RC_AGAIN, "could not connect: %s", line[0] != '\0' ? line : "no reason given");
}

/* Waits for the socket; false when the deadline passed or stop_fd (if >= 0) became readable (*stopped_out set
 * then). */
static bool
wait_socket(PGconn *conn, bool for_write, int64_t until_us, int stop_fd, bool *stopped_out)
{
	for (;;) {
		struct pollfd p[2] = {
		    {.fd = PQsocket(conn), .events = POLLIN | (for_write ? POLLOUT : 0)},
		    {.fd = stop_fd, .events = POLLIN},
		};
		int n = poll(p, stop_fd >= 0 ? 2 : 1, clock_poll_ms(clock_mono_us(), until_us));

		if (n < 0 && errno == EINTR)
			continue;
		if (n > 0 && p[0].revents != 0)
			return true;
		if (n > 0) {
			if (stopped_out != NULL)
				*stopped_out = true;
			return false;
		}
		if (n < 0 || clock_mono_us() >= until_us)
			return false;
	}
}

/* NOTICE and WARNING of the server are of no use to us: what matters comes as an answer. */
static void
no_notice(void *arg, const PGresult *r)
{
}

/* One try to connect.  Names of servers are looked up in it, for which libpq has no deadline: so it is made
 * aside. */
struct dial {
	char *dsn, *app;
	int64_t timeout_us, until_us;
	/* what came of it */
	PGconn *conn;
	enum rc rc;
	struct err err;
};

static enum rc
no_answer(int64_t timeout_us, struct err *err)
{
	return err_set(err, RC_AGAIN, "could not connect: no answer within %lld ms",
	    (long long)(timeout_us / US_PER_MS));
}

static enum rc
connect_poll(struct dial *d)
{
	PostgresPollingStatusType st = PGRES_POLLING_WRITING;

	while (st != PGRES_POLLING_OK) {
		if (st == PGRES_POLLING_FAILED || PQstatus(d->conn) == CONNECTION_BAD)
			return connect_refusal(PQerrorMessage(d->conn), &d->err);
		if (!wait_socket(d->conn, st == PGRES_POLLING_WRITING, d->until_us, -1, NULL))
			return no_answer(d->timeout_us, &d->err);
		st = PQconnectPoll(d->conn);
	}
	return RC_OK;
}

static void
dial(void *arg)
{
	struct dial *d = arg;
	/* dbname first and expanded: it may be a whole connection string.  Later keywords win over it, except
	 * the defaults. */
	const char *keys[] = {"dbname", "application_name", "client_encoding", "tcp_user_timeout", NULL};
	const char *values[] = {d->dsn, d->app, "UTF8", "10000", NULL};
	int skip = d->dsn[0] == '\0' ? 1 : 0; /* an empty dbname would hide PGDATABASE */

	d->conn = PQconnectStartParams(keys + skip, values + skip, skip ? 0 : 1);
	if (d->conn == NULL) {
		d->rc = err_set(&d->err, RC_AGAIN, "could not connect: out of memory");
		return;
	}
	PQsetNoticeReceiver(d->conn, no_notice, NULL);
	d->rc = connect_poll(d);
}

static void
drop_dial(void *arg)
{
	struct dial *d = arg;

	PQfinish(d->conn);
	free(d->dsn);
	free(d->app);
	free(d);
}

static enum rc
call_server(struct db *db, struct err *err)
{
	struct dial *d = xcalloc(1, sizeof *d);
	enum rc rc;

	d->dsn = xstrdup(db->dsn);
	d->app = xstrdup(db->app);
	d->timeout_us = db->timeout_us;
	d->until_us = clock_mono_us() + db->timeout_us;
	if (!aside_call(dial, drop_dial, d, d->until_us))
		return no_answer(db->timeout_us, err);
	rc = d->rc;
	if (rc == RC_OK) {
		db->conn = d->conn;
		d->conn = NULL;
	} else if (err != NULL) {
		*err = d->err;
	}
	drop_dial(d);
	return rc;
}

/* A zone that the server does not know: then it stays at UTC. */
static enum rc
settle_zone(struct db *db, struct err *err)
{
	const char *params[] = {db->zone};
	enum rc rc = db_query(db, "select set_config('timezone', $1, false)", 1, params, NULL, err);

	return rc == RC_BAD ? RC_OK : rc;
}

/* Before anything is asked on a new connection: what the old one was at is over. */
static enum rc
settle_in(struct db *db, struct err *err)
{
	char pid[16];
	const char *params[] = {pid, db->lost_since};
	PGresult *res = NULL;
	enum rc rc = db_script(db, session_sql, err);

	if (rc == RC_OK)
		rc = db_query(db, "select clock_timestamp()", 0, NULL, &res, err);
	if (rc == RC_OK && db->zone != NULL)
		rc = settle_zone(db, err);
	if (rc == RC_OK && db->lost_pid != 0) {
		snprintf(pid, sizeof pid, "%d", db->lost_pid);
		rc = db_query(db, sql_text("end_lost"), 2, params, NULL, err);
	}
	if (rc == RC_OK) {
		db->lost_pid = 0;
		db->pid = PQbackendPID(db->conn);
		snprintf(db->since, sizeof db->since, "%s", db_text(res, 0, 0));
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
	rc = call_server(db, err);
	if (rc == RC_OK) {
		PQsetnonblocking(db->conn, 1);
		rc = db->plain ? RC_OK : settle_in(db, err);
		if (rc == RC_UNKNOWN || rc == RC_BAD)
			rc = RC_AGAIN;
	}
	if (rc != RC_OK)
		db_disconnect(db);
	return rc;
}

/* What an error answer of the server means for the caller.  An error answer also means: this statement did
 * not commit. */
static enum rc
classify(const PGresult *r, struct err *err)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);
	const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
	enum rc rc = RC_BAD;

	if (state == NULL) {
		char line[300];

		one_line(line, sizeof line, PQresultErrorMessage(r));
		return err_set(err, RC_UNKNOWN, "connection lost: %s", line);
	}
	if (severity != NULL && strcmp(severity, "FATAL") == 0)
		rc = RC_UNKNOWN; /* terminated while it worked: the commit may be through */
	else if (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0)
		rc = RC_LOST;
	else if (strncmp(state, "53", 2) == 0 || strncmp(state, "57", 2) == 0 ||
		 strcmp(state, "55P03") == 0 || strncmp(state, "40", 2) == 0 || strcmp(state, "25006") == 0)
		rc = RC_AGAIN;
	err_set(err, rc, "%s%s%s", message ? message : "error", hint ? ". " : "", hint ? hint : "");
	if (err != NULL)
		snprintf(err->sqlstate, sizeof err->sqlstate, "%s", state);
	return rc;
}

static enum rc
lost(struct db *db, struct err *err)
{
	char line[300];

	one_line(line, sizeof line, PQerrorMessage(db->conn));
	lose(db);
	return err_set(err, RC_UNKNOWN, "connection lost: %s", line);
}

static enum rc
flush(struct db *db, int64_t until_us, struct err *err)
{
	int left;

	while ((left = PQflush(db->conn)) == 1) {
		if (!wait_socket(db->conn, true, until_us, -1, NULL) || !PQconsumeInput(db->conn)) {
			lose(db);
			return err_set(err, RC_UNKNOWN, "could not send within the deadline");
		}
	}
	return left == 0 ? RC_OK : lost(db, err);
}

/* Reads until the server is idle again.  The first error or the last rows count. */
static enum rc
collect(struct db *db, int64_t until_us, int stop_fd, bool *stopped_out, PGresult **out, struct err *err)
{
	enum rc rc = RC_OK;
	PGresult *r;

	for (;;) {
		while (PQisBusy(db->conn)) {
			if (!wait_socket(db->conn, false, until_us, stop_fd, stopped_out)) {
				if (stopped_out != NULL && *stopped_out)
					return RC_CLOSED; /* the caller cancels and comes back */
				lose(db);
				return err_set(
				    err, RC_UNKNOWN, "no answer from the server within the deadline");
			}
			if (!PQconsumeInput(db->conn))
				return lost(db, err);
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
			rc = classify(r, err);
		if (rc == RC_OK && out != NULL) {
			PQclear(*out);
			*out = r;
		} else {
			PQclear(r);
		}
	}
	if (PQstatus(db->conn) != CONNECTION_OK) {
		lose(db);
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
	enum rc rc = db_connect(db, err);
	int64_t until = clock_mono_us() + db->timeout_us;

	if (out != NULL)
		*out = NULL;
	if (rc != RC_OK)
		return rc;
	if (!PQsendQueryParams(db->conn, sql, n_params, NULL, params, NULL, NULL, 0))
		return lost(db, err);
	rc = flush(db, until, err);
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
		return lost(db, err);
	rc = flush(db, until, err);
	return rc == RC_OK ? collect(db, until, -1, NULL, NULL, err) : rc;
}

static void
send_cancel(void *arg)
{
	char text[256];

	PQcancel(arg, text, sizeof text); /* a failure shows as no answer to the statement */
}

static void
drop_cancel(void *arg)
{
	PQfreeCancel(arg);
}

/* PQcancel connects, and knows no deadline.  One that is still under way when the time is up could hit a later
 * statement: so the connection is given up. */
static enum rc
cancel(struct db *db, int64_t until_us, struct err *err)
{
	PGcancel *c = PQgetCancel(db->conn);

	if (c != NULL && !aside_call(send_cancel, drop_cancel, c, until_us)) {
		db_disconnect(db);
		return err_set(err, RC_UNKNOWN, "the statement could not be cancelled within the deadline");
	}
	PQfreeCancel(c);
	return RC_OK;
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
		return lost(db, err);
	rc = flush(db, clock_mono_us() + db->timeout_us, err);
	if (rc == RC_OK)
		rc = collect(db, CLOCK_NEVER, stop_fd, stopped_out, out, err);
	if (rc == RC_CLOSED) {
		int64_t until = clock_mono_us() + cancel_us;

		rc = cancel(db, until, err);
		if (rc == RC_OK)
			rc = collect(db, until, -1, NULL, out, err);
	}
	return finish(rc, out);
}

int64_t
db_int64(const PGresult *r, int row, int col)
{
	return strtoll(PQgetvalue(r, row, col), NULL, 10);
}

double
db_double(const PGresult *r, int row, int col)
{
	return strtod(PQgetvalue(r, row, col), NULL);
}

bool
db_bool(const PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col)[0] == 't';
}

const char *
db_text(const PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col);
}
