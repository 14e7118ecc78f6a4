/* libpq with deadlines: connect, send, wait, classify.  See pg.h for the rules. */
#include "db/pg_priv.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/dial.h"
#include "db/fault.h"

#define MOVED_US (200 * US_PER_MS) /* who waits looks this often whether another server is wanted */

struct db *
db_create(const char *dsn, const char *app, int64_t timeout_us)
{
	struct db *db = xcalloc(1, sizeof *db);

	db->dsn = xstrdup(dsn == NULL ? "" : dsn);
	db->app = schema_app(app);
	db->timeout_us = timeout_us;
	db->life.pidfd = -1;
	return db;
}

void
db_destroy(struct db **db)
{
	if (*db == NULL)
		return;
	db_disconnect(*db);
	life_forget(&(*db)->life);
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
	db->key = 0;
}

void
db_be(struct db *db, unsigned traits)
{
	db->traits |= traits;
}

void
db_zone(struct db *db, const char *zone)
{
	free(db->zone);
	db->zone = xstrdup(zone);
}

void
db_stays_with(struct db *db, const _Atomic uint64_t *server)
{
	db->server = server;
}

bool
db_is_elsewhere(const struct db *db)
{
	uint64_t wanted = db->server == NULL || db->key == 0 ? 0 : atomic_load(db->server);

	return wanted != 0 && db->key != wanted;
}

void
db_within(struct db *db, int64_t within_us)
{
	db->within_us = within_us;
}

void
db_by(struct db *db, int64_t by_us)
{
	db->by_us = by_us;
}

int64_t
db_call_until(const struct db *db)
{
	int64_t until_us = clock_mono_us() + (db->within_us > 0 ? db->within_us : db->timeout_us);

	return db->by_us != 0 && db->by_us < until_us ? db->by_us : until_us;
}

void
db_watch(struct db *db, bool word)
{
	db->life.watched = true;
	db->life.word = word;
}

bool
db_can_tell(const struct db *db)
{
	return db->conn != NULL && life_can_tell(&db->life);
}

bool
db_server_over(const struct db *db)
{
	return life_is_over(&db->life);
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

PGconn *
db_conn(struct db *db)
{
	return db->conn;
}

/* The connection was lost while the server worked, and for all we know it still does. */
void
db_lose(struct db *db)
{
	if ((db->traits & DB_PLAIN) == 0 && !db->pooled && db->since[0] != '\0') {
		db->lost_pid = db->pid;
		db->lost_key = db->key;
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

enum rc
db_connect(struct db *db, struct err *err)
{
	struct life_target target = db->life.target;
	int64_t timeout_us = db->timeout_us, left_us = db->by_us - clock_mono_us();
	enum rc rc;

	if (db->conn != NULL && PQstatus(db->conn) == CONNECTION_OK &&
	    (!db_is_elsewhere(db) || PQtransactionStatus(db->conn) != PQTRANS_IDLE))
		return RC_OK;
	db_disconnect(db);
	if (db->by_us != 0 && left_us < timeout_us)
		timeout_us = left_us > 0 ? left_us : 0;
	rc = dial_server(
	    db->dsn, db->app, timeout_us, (db->traits & DB_OF_NODE) != 0, &target, &db->conn, err);
	if (rc == RC_OK) {
		int64_t within_us = db->within_us;

		db->within_us = 0;
		db->generation++;
		atomic_fetch_add(&open_count, 1);
		PQsetnonblocking(db->conn, 1);
		rc = (db->traits & DB_PLAIN) != 0 ? RC_OK : db_settle_in(db, err);
		db->within_us = within_us;
		if (rc == RC_UNKNOWN || rc == RC_BAD)
			rc = RC_AGAIN;
		if (err != NULL)
			err->silent = false; /* that is about a caller's statement */
	}
	if (rc == RC_OK)
		life_begin(&db->life, db->conn, db->pooled);
	else
		life_refused(&db->life, &target);
	if (rc != RC_OK)
		db_disconnect(db);
	return rc == RC_BAD && (db->traits & DB_PATIENT) != 0 ? RC_AGAIN : rc;
}

/* What an error answer of the server means for the caller.  An error answer also means: this statement did
 * not commit. */
enum rc
db_classify(const struct db *db, const PGresult *r, struct err *err)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
	const char *message = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
	const char *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);
	const char *place = PQresultErrorField(r, PG_DIAG_SOURCE_FUNCTION);
	const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
	enum rc rc;

	if (state == NULL) {
		char line[300];

		dial_one_line(line, sizeof line, PQresultErrorMessage(r));
		return err_set(err, RC_UNKNOWN, "connection lost: %s", line);
	}
	/* FATAL: terminated while it worked, so it may have committed. */
	rc = severity != NULL && strcmp(severity, "FATAL") == 0
		 ? RC_UNKNOWN
		 : fault_rc(state, (db->traits & DB_PATIENT) != 0);
	err_set(err, rc, "%s%s%s", message ? message : "error", hint ? ". " : "", hint ? hint : "");
	if (err != NULL) {
		snprintf(err->sqlstate, sizeof err->sqlstate, "%s", state);
		snprintf(err->place, sizeof err->place, "%s", place ? place : "");
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

enum rc
db_await_answer(struct db *db, int64_t until_us, struct err *err)
{
	while (PQisBusy(db->conn)) {
		int64_t look_us = db->key == 0 ? until_us : clock_mono_us() + MOVED_US;

		if (!dial_wait_socket(db->conn, false, look_us < until_us ? look_us : until_us, -1, NULL)) {
			bool moved = db_is_elsewhere(db);

			if (clock_mono_us() < until_us && !moved)
				continue;
			db_lose(db);
			(void)err_set(err, RC_UNKNOWN, "no answer from the server %s",
			    moved ? "that the node has left" : "within the deadline");
			if (err != NULL)
				err->silent = !moved;
			return RC_UNKNOWN;
		}
		if (!PQconsumeInput(db->conn))
			return db_lost(db, err);
	}
	return RC_OK;
}

enum rc
db_collect(struct db *db, int64_t until_us, PGresult **out, struct err *err)
{
	enum rc rc = RC_OK;
	PGresult *r;

	for (;;) {
		enum rc here = db_await_answer(db, until_us, err);

		if (here != RC_OK)
			return here;
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
			rc = (db->traits & DB_KEEPS) != 0 && db_name_is_stale(db, r, err)
				 ? RC_AGAIN
				 : db_classify(db, r, err);
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
	bool named;
	int64_t until;

	if (out != NULL)
		*out = NULL;
	rc = db_connect(db, err);
	if (rc != RC_OK)
		return rc;
	until = db_call_until(db);
	if (db->pooled && (db->traits & DB_PLAIN) == 0 && PQtransactionStatus(db->conn) == PQTRANS_IDLE)
		return finish(db_query_pooled(db, sql, n_params, params, until, out, err), out);
	named = (db->traits & DB_KEEPS) != 0 && db->since[0] != '\0'; /* until then it may be a pooler's */
	if (named)
		rc = db_name(db, sql, err);
	if (rc != RC_OK)
		return rc;
	if (!db_send(db, named ? db_name_of(db, sql) : NULL, sql, n_params, params))
		return db_lost(db, err);
	rc = db_flush(db, until, err);
	if (rc == RC_OK)
		rc = db_collect(db, until, out, err);
	return finish(rc, out);
}

enum rc
db_script(struct db *db, const char *sql, struct err *err)
{
	enum rc rc = db->conn != NULL ? RC_OK : db_connect(db, err);
	int64_t until = db_call_until(db);

	if (rc != RC_OK)
		return rc;
	if (!PQsendQuery(db->conn, sql))
		return db_lost(db, err);
	rc = db_flush(db, until, err);
	return rc == RC_OK ? db_collect(db, until, NULL, err) : rc;
}
