/* Statements through a pooler.  Each is sent in one go with what it needs: what comes before a Sync is one
 * transaction, even without BEGIN, so settings made for the transaction hold for the statement and for
 * nothing else, and an error leaves nothing open.  It takes one round trip, as it does without a pooler. */
#include "db/pg_priv.h"

#include <inttypes.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "db/dial.h"

#define BEFORE 2 /* statements before the one that was asked for */

/* The statement ends in the server before we give it up: nobody can end it from here (the pooler keeps the
 * server's connection), and what commits after we asked what it did is not found. */
static int64_t
server_ms(int64_t until_us)
{
	int64_t ms = (until_us - clock_mono_us()) * 3 / 4 / US_PER_MS;

	return ms < 1 ? 1 : ms < INT32_MAX ? ms : 0;
}

static bool
send_settings(struct db *db, int64_t until_us)
{
	AUTO_BUF struct buf sql = {0};

	for (const struct db_setting *s = db_settings; s->name != NULL; s++)
		buf_addf(&sql, "%s pg_catalog.set_config('%s', '%s', true)", sql.len == 0 ? "select" : ",",
		    s->name,
		    db->zone_known && strcmp(s->name, "timezone") == 0 ? db_zone_name(db) : s->value);
	buf_addf(
	    &sql, ", pg_catalog.set_config('statement_timeout', '%" PRId64 "', true)", server_ms(until_us));
	return PQsendQueryParams(db->conn, "set transaction isolation level read committed", 0, NULL, NULL,
		   NULL, NULL, 0) &&
	       PQsendQueryParams(db->conn, buf_str(&sql), 0, NULL, NULL, NULL, NULL, 0);
}

/* For the caller it is as if we had given it up. */
static enum rc
no_answer(struct err *err)
{
	(void)err_set(err, RC_UNKNOWN, "no answer from the server within the deadline");
	err->silent = true;
	return RC_UNKNOWN;
}

static enum rc
next_result(struct db *db, int64_t until_us, PGresult **out, struct err *err)
{
	enum rc rc = db_await_answer(db, until_us, err);

	if (rc != RC_OK)
		return rc;
	*out = PQgetResult(db->conn);
	/* A NULL ends the results of one statement. */
	return *out == NULL && PQstatus(db->conn) != CONNECTION_OK ? db_lost(db, err) : RC_OK;
}

/* Reads until the Sync has come back.  The first error counts, or the rows of the
 * statement that was asked for. */
static enum rc
collect(struct db *db, int64_t until_us, PGresult **out, struct err *err)
{
	enum rc rc = RC_OK;

	for (int ended = 0;;) {
		PGresult *r = NULL;
		enum rc got = next_result(db, until_us, &r, err);
		ExecStatusType st = PQresultStatus(r);

		if (got != RC_OK)
			return got;
		if (r == NULL) {
			ended++;
		} else if (st == PGRES_PIPELINE_SYNC) {
			PQclear(r);
			break;
		} else if (st == PGRES_TUPLES_OK || st == PGRES_COMMAND_OK) {
			if (ended == BEFORE && out != NULL) {
				*out = r;
				continue;
			}
		} else if (rc == RC_OK) {
			rc = db_classify(db, r, err);
			if (rc == RC_AGAIN && err != NULL && strcmp(err->sqlstate, "57014") == 0)
				rc = no_answer(err);
		}
		PQclear(r);
	}
	if (PQstatus(db->conn) != CONNECTION_OK || !PQexitPipelineMode(db->conn)) {
		db_lose(db);
		rc = rc == RC_OK ? err_set(err, RC_UNKNOWN, "connection lost") : rc;
	}
	return rc;
}

enum rc
db_query_pooled(struct db *db, const char *sql, int n_params, const char *const *params, int64_t until_us,
    PGresult **out, struct err *err)
{
	enum rc rc;

	if (!PQenterPipelineMode(db->conn) || !send_settings(db, until_us) ||
	    !PQsendQueryParams(db->conn, sql, n_params, NULL, params, NULL, NULL, 0) ||
	    !PQpipelineSync(db->conn))
		return db_lost(db, err);
	rc = db_flush(db, until_us, err);
	return rc == RC_OK ? collect(db, until_us, out, err) : rc;
}

enum rc
db_begin(struct db *db, const char *more, struct err *err)
{
	AUTO_BUF struct buf sql = {0};
	enum rc rc = db_connect(db, err);

	buf_adds(&sql, "begin isolation level read committed");
	for (const struct db_setting *s = db_settings; rc == RC_OK && db->pooled && s->name != NULL; s++)
		buf_addf(&sql, "; select pg_catalog.set_config('%s', '%s', true)", s->name, s->value);
	buf_addf(&sql, "; %s", more);
	if (rc == RC_OK)
		rc = db_script(db, buf_str(&sql), err);
	return rc;
}

enum rc
db_await(struct db *db, int64_t until_us, struct err *err)
{
	if (!dial_wait_socket(db->conn, false, until_us, -1, NULL))
		return err_set(err, RC_AGAIN, "nothing came");
	return PQconsumeInput(db->conn) ? RC_OK : db_lost(db, err);
}
