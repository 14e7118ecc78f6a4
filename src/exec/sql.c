/*
 * Kind sql: the task's text, the fence check and the finish are one transaction in the task's own database,
 * so its effect is there exactly once: when the finish does not find the fence, everything the text did is
 * rolled back.
 *
 * The connection is the worker's own and kept between runs; what a text may leave in the session is thrown
 * away after each.  Stop (timeout, cancel, fence) is a cancel request on another connection.
 *
 * A connection that is lost says nothing about its backend, which may work on, and commit.  So the run is over
 * only when that backend is gone (it is ended by force); the history then says whether it went through.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/backoff.h"
#include "core/progress.h"
#include "db/fault.h"
#include "db/pg.h"
#include "db/sql.h"
#include "db/store_task.h"
#include "exec/exec.h"
#include "exec/sql_split.h"

#define STATEMENTS_MAX 1000
#define LEAVE_US       (15 * US_PER_S) /* a node that is stopping looks for a lost backend no longer */
#define CALL_US        (10 * US_PER_S)
#define KEEP_ALL_US    (INT64_C(100) * 365 * 86400 * US_PER_S) /* upkeep that drops nothing */

struct sql_worker {
	const struct exec_env *env;
	struct db *db;       /* as incarnation */
	int64_t incarnation; /* the connection is named after it, so that peers can end it when we are dead */
};

/* What works for a run on the server. */
struct backend {
	char pid[24];
	char since[48]; /* a moment at which it did: process ids come again */
};

static void *
sql_open(const void *internal, char *err, size_t err_size)
{
	struct sql_worker *w = xcalloc(1, sizeof *w);

	w->env = internal;
	return w;
}

static void
sql_close(void *self)
{
	struct sql_worker *w = self;

	db_destroy(&w->db);
	free(w);
}

/* A connection whose name tells the incarnation. */
static struct db *
connection(struct sql_worker *w, int64_t incarnation)
{
	char app[64];

	if (w->db == NULL || w->incarnation != incarnation) {
		db_destroy(&w->db);
		snprintf(app, sizeof app, "pgrab sql %" PRId64, incarnation);
		w->db = db_create(w->env->dsn, app, CALL_US);
		db_of_node(w->db);
		db_patient(w->db);
		db_plain_session(w->db);
		w->incarnation = incarnation;
	}
	return w->db;
}

/* Statements and parameters of the run as arrays.  False: the text is refused (result->error says why). */
static bool
take_apart(const struct pgrab_run *run, struct pgarray *statements, struct pgarray *params,
    struct pgrab_result *result)
{
	struct sql_part *part = xcalloc(STATEMENTS_MAX, sizeof *part);
	size_t n = sql_split(run->command, part, STATEMENTS_MAX), n_params = 0;

	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "params") == 0)
			pgarray_text(params, run->args[i].value);
		else if (strcmp(run->args[i].key, "params:null") == 0)
			pgarray_null(params);
		else
			continue;
		n_params++;
	}
	for (size_t i = 0; i < n && n <= STATEMENTS_MAX; i++) {
		char *one = xmemdup0(part[i].start, part[i].len);

		pgarray_text(statements, one);
		free(one);
	}
	free(part);
	if (n == 0)
		snprintf(result->error, sizeof result->error, "the command holds no SQL statement");
	else if (n > STATEMENTS_MAX)
		snprintf(result->error, sizeof result->error,
		    "the command holds more than %d statements; put them in a procedure", STATEMENTS_MAX);
	else if (n > 1 && n_params > 0)
		snprintf(result->error, sizeof result->error,
		    "args.params goes with exactly one statement; this command holds %zu", n);
	return result->error[0] == '\0';
}

static bool
told_to_stop(const struct pgrab_host *host)
{
	return host->stop(host->ctx) != PGRAB_STOP_NONE;
}

static enum rc
open_transaction(struct db *db, const struct pgrab_host *host, struct err *err)
{
	enum rc rc = db_connect(db, err);

	if (rc == RC_OK && told_to_stop(host))
		rc = err_set(err, RC_AGAIN, "stopped");
	return rc == RC_OK ? db_script(db, sql_text("sql_begin"), err) : rc;
}

/* Nothing of the task is executed here. */
static enum rc
begin(struct db *db, const struct pgrab_run *run, const struct pgrab_host *host, struct backend *backend_out,
    struct err *err)
{
	char id[24], version[24], incarnation[24];
	const char *params[] = {id, version, incarnation};
	PGresult *res = NULL;
	enum rc rc = open_transaction(db, host, err);

	if (rc == RC_UNKNOWN && !told_to_stop(host)) /* the kept connection was dead */
		rc = open_transaction(db, host, err);
	if (rc != RC_OK)
		return rc;
	snprintf(id, sizeof id, "%" PRId64, run->task_id);
	snprintf(version, sizeof version, "%" PRId64, run->version);
	snprintf(incarnation, sizeof incarnation, "%" PRId64, run->incarnation);
	rc = db_query(db, sql_text("sql_check"), 3, params, &res, err);
	if (rc == RC_OK && PQntuples(res) == 0)
		rc = err_set(err, RC_LOST, "the task is not this node's any more");
	if (rc == RC_OK) {
		snprintf(backend_out->pid, sizeof backend_out->pid, "%s", db_text(res, 0, 0));
		snprintf(backend_out->since, sizeof backend_out->since, "%s", db_text(res, 0, 1));
	}
	PQclear(res);
	return rc == RC_OK && told_to_stop(host) ? err_set(err, RC_AGAIN, "stopped") : rc;
}

/* The finish, in the same transaction as the work.  A row that somebody has locked is waited for, as long as the run may take:
 * the work is done, and would have to be done again. */
static enum rc
finish(struct sql_worker *w, const struct pgrab_host *host, struct finish *f, struct err *err)
{
	struct finisher_name who = {
	    .node_id = w->env->node_id == NULL ? 0 : atomic_load(w->env->node_id), .node = w->env->node_name};
	enum rc rc;

	db_wait_for(w->db, host->stop_fd, w->env->kill_grace_us);
	rc = store_finish_here(w->db, &who, &f, 1, err);
	db_wait_for(w->db, -1, 0);
	if (rc == RC_OK && !f->applied)
		rc = err_set(err, RC_LOST, "the task is not this node's any more; its work was rolled back");
	return rc;
}

/* False: others end the run, and its backend first. */
static bool
try_again(const struct pgrab_host *host, struct backoff *backoff, int64_t begun_us)
{
	enum pgrab_stop stop = host->stop(host->ctx);

	if (stop == PGRAB_STOP_FENCED ||
	    (stop == PGRAB_STOP_SHUTDOWN && clock_mono_us() - begun_us > LEAVE_US))
		return false;
	poll(NULL, 0,
	    (int)(backoff_next_us(backoff) / US_PER_MS)); /* whatever stop says, it has to be known */
	return true;
}

/* The connection was lost: ends the backend and looks whether it had committed.  RC_OK: it had.  RC_AGAIN: it
 * had not, and never will.  RC_UNKNOWN: not to be found out by this node. */
static enum rc
find_out(struct sql_worker *w, const struct pgrab_host *host, const struct backend *backend, struct finish *f)
{
	const char *params[] = {backend->pid, backend->since};
	int64_t begun_us = clock_mono_us();
	struct backoff backoff;
	struct err ignored;

	f->applied = false;
	if (pgrab_host_has(host, waits_for)) {
		char text[80];

		snprintf(
		    text, sizeof text, "the server's process %s, whose connection was lost", backend->pid);
		host->waits_for(host->ctx, text);
	}
	backoff_init(&backoff, 50 * US_PER_MS, US_PER_S, (uint64_t)begun_us);
	do {
		PGresult *res = NULL;
		enum rc rc = db_query(w->db, sql_text("sql_end_backend"), 2, params, &res, &ignored);
		bool gone = rc == RC_OK && db_bool(res, 0, 0);

		PQclear(res);
		if (gone && store_recorded(w->db, &f, 1, &ignored) == RC_OK)
			return f->applied ? RC_OK : RC_AGAIN;
	} while (try_again(host, &backoff, begun_us));
	return RC_UNKNOWN;
}

/* The text itself; its rows go to host->output. */
static enum rc
work(struct sql_worker *w, const struct pgrab_run *run, const struct pgrab_host *host,
    struct pgrab_result *result, char **output_out, struct err *err)
{
	struct pgarray statements = {0}, params = {0};
	char limit[24];
	PGresult *res = NULL;
	bool stopped = false;
	enum rc rc = RC_BAD;

	snprintf(limit, sizeof limit, "%d", OUTBUF_LIMIT);
	if (take_apart(run, &statements, &params, result)) {
		const char *args[] = {pgarray_str(&statements), pgarray_str(&params), limit};

		rc = db_query_stoppable(w->db, sql_text("sql_run"), 3, args, host->stop_fd,
		    w->env->kill_grace_us, &stopped, &res, err);
	} else {
		err_set(err, RC_BAD, "%s", result->error);
	}
	if (rc == RC_OK && !stopped)
		*output_out =
		    text_printable(db_text(res, 0, 0), (size_t)PQgetlength(res, 0, 0), OUTBUF_LIMIT);
	else if (rc == RC_OK)
		rc = err_set(err, RC_AGAIN, "stopped");
	PQclear(res);
	pgarray_fini(&statements);
	pgarray_fini(&params);
	return rc;
}

/* The work was good, but its finish is refused for what is no fault of the task: the server's, or the history has no partition
 * for now (nobody has made one for days).  All of it is rolled back, and done again in a moment; that costs no attempt. */
static bool
put_off(struct sql_worker *w, const struct pgrab_host *host, enum rc rc, const struct err *err)
{
	struct err ignored;

	if (fault_no_partition(rc, err))
		return db_script(w->db, "rollback", &ignored) == RC_OK &&
		       store_upkeep(w->db, KEEP_ALL_US, &ignored) == RC_OK;
	return rc == RC_AGAIN && fault_of(err->sqlstate) == FAULT_SERVER && !told_to_stop(host);
}

static const char *
stop_text(enum pgrab_stop why)
{
	switch (why) {
	case PGRAB_STOP_TIMEOUT: return "timed out";
	case PGRAB_STOP_CANCEL: return "cancelled";
	case PGRAB_STOP_FENCED: return "the node lost its lease";
	case PGRAB_STOP_SHUTDOWN: return "the node is stopping";
	case PGRAB_STOP_NONE:
	default: return NULL;
	}
}

static void
say_why(struct pgrab_result *result, const char *stop, const struct err *err)
{
	if (stop != NULL)
		snprintf(result->error, sizeof result->error, "%s", stop);
	else if (strstr(err->text, "EXECUTE of transaction commands") != NULL ||
		 strcmp(err->sqlstate, "2D000") == 0)
		snprintf(result->error, sizeof result->error,
		    "COMMIT, ROLLBACK and SAVEPOINT are refused in a task: its text, the fence check and the "
		    "finish are one transaction (SQLSTATE %s)",
		    err->sqlstate);
	else if (strstr(err->text, "cannot COPY to/from client") != NULL)
		snprintf(result->error, sizeof result->error,
		    "COPY from or to the client is refused in a task: there is no client; use INSERT or a "
		    "file (SQLSTATE %s)",
		    err->sqlstate);
	else if (err->sqlstate[0] != '\0')
		snprintf(result->error, sizeof result->error, "%s (SQLSTATE %s)", err->text, err->sqlstate);
	else
		snprintf(result->error, sizeof result->error, "%s", err->text);
}

/* Leaves the connection as new, or drops it. */
static void
clean_up(struct sql_worker *w)
{
	struct err ignored;

	if (db_conn(w->db) == NULL)
		return;
	if (PQtransactionStatus(db_conn(w->db)) != PQTRANS_IDLE &&
	    db_script(w->db, "rollback", &ignored) != RC_OK)
		db_disconnect(w->db);
	if (db_conn(w->db) != NULL && db_script(w->db, sql_text("sql_reset"), &ignored) != RC_OK)
		db_disconnect(w->db);
}

/* The text, its finish and COMMIT, in the transaction that begin() opened. */
static enum rc
carry_out(struct sql_worker *w, const struct pgrab_run *run, const struct pgrab_host *host, struct finish *f,
    struct pgrab_result *result, char **output_out, struct err *err)
{
	int64_t begun = clock_mono_us();
	enum rc rc = work(w, run, host, result, output_out, err);

	f->output = *output_out != NULL && (*output_out)[0] != '\0' ? *output_out : NULL;
	f->output_truncated = *output_out != NULL && strlen(*output_out) >= OUTBUF_LIMIT;
	f->begun_ago_us = clock_mono_us() - begun;
	if (rc == RC_OK && host->stop(host->ctx) == PGRAB_STOP_FENCED)
		rc = err_set(err, RC_LOST, "the node lost its lease");
	if (rc == RC_OK) {
		rc = finish(w, host, f, err);
		result->not_started = put_off(w, host, rc, err);
	}
	return rc == RC_OK ? db_script(w->db, "commit", err) : rc;
}

/* RAISE NOTICE 'pgrab: progress 42 copying' */
static void
take_notice(void *ctx, const char *text)
{
	const struct pgrab_host *host = ctx;
	struct progress_reader reader = {0};
	struct progress p;

	(void)progress_read(&reader, text, strlen(text), &p);
	if (pgrab_host_has(host, progress) && progress_read(&reader, "\n", 1, &p))
		host->progress(host->ctx, p.percent, p.text);
}

static void
sql_run(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct sql_worker *w = self;
	struct db *db = connection(w, run->incarnation);
	struct finish f = {.id = run->task_id,
	    .version = run->version,
	    .incarnation = run->incarnation,
	    .outcome = OUTCOME_SUCCEEDED};
	struct backend backend;
	char *output = NULL;
	struct err err = {0};
	enum rc rc = begin(db, run, host, &backend, &err);

	if (rc == RC_OK) {
		db_notices(w->db, take_notice, (void *)host);
		rc = carry_out(w, run, host, &f, result, &output, &err);
		db_notices(w->db, NULL, NULL);
		if (rc == RC_UNKNOWN)
			rc = find_out(w, host, &backend, &f);
		/* Still unknown: nothing is said about it, so that it is recovered, which ends the backend. */
		result->recorded = rc == RC_OK || rc == RC_UNKNOWN;
	} else if (rc == RC_AGAIN || rc == RC_UNKNOWN) {
		result->not_started = !told_to_stop(host); /* no connection: nothing was executed */
	}
	clean_up(w);
	free(output);
	result->succeeded = rc == RC_OK;
	if (rc != RC_OK)
		say_why(result, stop_text(host->stop(host->ctx)), &err);
}

const struct pgrab_executor exec_sql = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "sql",
    .summary = "run SQL in the same database, exactly once in effect",
    .open = sql_open,
    .close = sql_close,
    .run = sql_run,
};
