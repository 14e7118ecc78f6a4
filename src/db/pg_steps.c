/* Several statements in one go, by libpq's pipeline.  Answers come in order; NULL ends those of one
 * statement, and each Sync has an answer of its own.  A statement that was skipped because one before it
 * failed is answered as aborted. */
#include "db/pg_priv.h"

#include <string.h>

#include "base/clock.h"
#include "db/dial.h"

/* How long to wait for an answer, and what ends the wait. */
struct wait {
	struct db *db;
	int stop_fd;
	bool stopped; /* and told so: from then on rows that go on coming do not put off the end */
	int64_t until_us, cancel_us;
};

static struct wait
wait_begin(struct db *db, int stop_fd, int64_t cancel_us)
{
	return (struct wait){.db = db,
	    .stop_fd = stop_fd,
	    .until_us = stop_fd >= 0 ? CLOCK_NEVER : db_call_until(db),
	    .cancel_us = cancel_us};
}

/* A stop cancels the running statement; the server gets cancel_us to confirm that. */
static enum rc
stop(struct wait *w, struct err *err)
{
	w->stop_fd = -1;
	w->stopped = true;
	w->until_us = clock_mono_us() + w->cancel_us;
	return db_cancel(w->db, w->until_us, err);
}

static enum rc
next(struct wait *w, PGresult **out, struct err *err)
{
	struct db *db = w->db;

	*out = NULL;
	while (PQisBusy(db->conn)) {
		/* The server may send rows of the first statement before it has read the last. */
		int unsent = PQflush(db->conn);
		bool stopped = false, over = w->stopped && clock_mono_us() >= w->until_us;

		if (unsent < 0)
			return db_lost(db, err);
		if (over || !dial_wait_socket(db->conn, unsent > 0, w->until_us, w->stop_fd, &stopped)) {
			if (stopped && stop(w, err) == RC_OK)
				continue;
			if (stopped)
				return RC_UNKNOWN;
			db_lose(db);
			return err_set(err, RC_UNKNOWN, "no answer from the server within the deadline");
		}
		if (!PQconsumeInput(db->conn))
			return db_lost(db, err);
	}
	*out = PQgetResult(db->conn);
	return *out == NULL && PQstatus(db->conn) != CONNECTION_OK ? db_lost(db, err) : RC_OK;
}

static bool
good(const PGresult *r)
{
	ExecStatusType st = PQresultStatus(r);

	return st == PGRES_TUPLES_OK || st == PGRES_COMMAND_OK || st == PGRES_EMPTY_QUERY;
}

/* Before the pipeline begins, because a single statement cannot be sent inside it. */
static enum rc
name_steps(struct db *db, const struct db_step *step, size_t n, size_t *failed_out, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		enum rc rc = step[i].ours ? db_name(db, step[i].sql, err) : RC_OK;

		*failed_out = i;
		if (rc != RC_OK)
			return rc;
	}
	*failed_out = n;
	return RC_OK;
}

static enum rc
send_steps(struct db *db, const struct db_step *step, size_t n, struct err *err)
{
	bool ok = PQenterPipelineMode(db->conn);

	for (size_t i = 0; ok && i < n; i++) {
		const char *name = step[i].ours ? db_name_of(db, step[i].sql) : NULL;

		ok = db_send(db, name, step[i].sql, step[i].n_params, step[i].params);
		if (ok && (step[i].sync || i == n - 1))
			ok = PQpipelineSync(db->conn);
	}
	return ok ? RC_OK : db_lost(db, err); /* next() sends what libpq could not yet */
}

/* The next answer that is not a row to hand on. */
static enum rc
next_answer(struct wait *w, const struct db_step *step, PGresult **out, struct err *err)
{
	for (;;) {
		enum rc rc = next(w, out, err);

		if (rc != RC_OK || PQresultStatus(*out) != PGRES_SINGLE_TUPLE)
			return rc;
		step->row(step->ctx, *out);
		PQclear(*out);
	}
}

/* The answer to one step, and the NULL after it.  An aborted one is not a failure of its own. */
static enum rc
collect_one(struct wait *w, const struct db_step *step, PGresult **result, struct err *err)
{
	PGresult *r = NULL, *end = NULL;
	struct err ignored;
	enum rc rc, rc_end;

	if (step->row != NULL)
		(void)PQsetSingleRowMode(w->db->conn); /* fails for a skipped one, which is fine */
	rc = next_answer(w, step, &r, err);
	if (rc != RC_OK)
		return rc;
	if (r != NULL && !good(r) && PQresultStatus(r) != PGRES_PIPELINE_ABORTED)
		rc = step->ours && db_name_is_stale(w->db, r, err) ? RC_AGAIN : db_classify(w->db, r, err);
	if (result != NULL)
		*result = r;
	else
		PQclear(r);
	if (PQstatus(w->db->conn) != CONNECTION_OK)
		return rc;
	rc_end = next(w, &end, rc == RC_OK ? err : &ignored);
	PQclear(end);
	return rc == RC_OK ? rc_end : rc;
}

enum rc
db_steps(struct db *db, const struct db_step *step, size_t n, int stop_fd, int64_t cancel_us,
    PGresult **result, size_t *failed_out, struct err *err)
{
	struct wait w = wait_begin(db, stop_fd, cancel_us);
	enum rc rc;

	if (result != NULL)
		memset(result, 0, n * sizeof *result);
	*failed_out = n;
	if (db->conn == NULL)
		return err_set(err, RC_UNKNOWN, "connection lost");
	rc = name_steps(db, step, n, failed_out, err);
	if (rc != RC_OK)
		return rc;
	rc = send_steps(db, step, n, err);
	for (size_t i = 0; i < n && db->conn != NULL; i++) {
		struct err own = {0};
		enum rc one = collect_one(&w, &step[i], result != NULL ? &result[i] : NULL, &own);

		if (one != RC_OK && rc == RC_OK) {
			rc = one;
			*failed_out = i;
			if (err != NULL)
				*err = own;
		}
		if (db->conn != NULL && (step[i].sync || i == n - 1)) {
			AUTO_CLEAR PGresult *sync = NULL;

			if (next(&w, &sync, &own) != RC_OK && rc == RC_OK)
				rc = err_set(err, RC_UNKNOWN, "%s", own.text);
		}
	}
	if (db->conn == NULL)
		return rc == RC_OK ? err_set(err, RC_UNKNOWN, "connection lost") : rc;
	if (PQstatus(db->conn) != CONNECTION_OK || !PQexitPipelineMode(db->conn)) {
		db_lose(db);
		rc = rc == RC_OK ? err_set(err, RC_UNKNOWN, "connection lost") : rc;
	}
	return rc;
}

enum rc
db_alone(struct db *db, const struct db_step *step, int stop_fd, int64_t cancel_us, struct err *err)
{
	struct wait w = wait_begin(db, stop_fd, cancel_us);
	PGresult *r = NULL;
	enum rc rc = RC_OK;

	if (db->conn == NULL)
		return err_set(err, RC_UNKNOWN, "connection lost");
	if (!PQsendQueryParams(db->conn, step->sql, step->n_params, NULL, step->params, NULL, NULL, 0) ||
	    !PQsetSingleRowMode(db->conn))
		return db_lost(db, err);
	while (
	    db->conn != NULL && next_answer(&w, step, &r, rc == RC_OK ? err : NULL) == RC_OK && r != NULL) {
		ExecStatusType st = PQresultStatus(r);

		if (st == PGRES_COPY_IN || st == PGRES_COPY_OUT || st == PGRES_COPY_BOTH) {
			PQclear(r);
			db_disconnect(db);
			return err_set(err, RC_BAD, "cannot COPY to/from client");
		}
		if (!good(r) && rc == RC_OK)
			rc = db_classify(db, r, err);
		PQclear(r);
	}
	return db->conn == NULL ? RC_UNKNOWN : rc;
}

void
db_drop_dead(struct db *db)
{
	bool there = db->conn != NULL;

	/* Twice: the end of a connection comes after the server's last words. */
	for (int i = 0; there && i < 2 && dial_wait_socket(db->conn, false, clock_mono_us(), -1, NULL); i++)
		there = PQconsumeInput(db->conn) && PQstatus(db->conn) == CONNECTION_OK;
	if (!there)
		db_disconnect(db);
}
