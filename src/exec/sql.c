/*
 * Kind sql: the task's text, the fence check and the finish are one transaction in the task's own database,
 * so its effect is there exactly once: when the finish does not find the fence, everything the text did is
 * rolled back.
 *
 * The text runs on a connection of its owner's (sql_session.c); the finish proves itself there by what only
 * this run knows.  That takes two round trips: begin, check and text; finish and commit.  Stop (timeout,
 * cancel, fence) is a cancel request on another connection.
 *
 * A lost connection says nothing about its backend, which may go on working, and commit.  So the run is over
 * only when that backend is gone (it is ended by force); the history then says whether it committed.
 */
#include "exec/sql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/fault.h"
#include "db/sql.h"
#include "db/store_task.h"
#include "exec/result.h"

#define SAY_US (60 * US_PER_S) /* between two complaints of one worker */

static void *
sql_open(const void *internal, char *err, size_t err_size)
{
	struct sql_worker *w = xcalloc(1, sizeof *w);

	w->env = internal;
	w->sessions.env = internal;
	w->db = db_create(w->env->dsn, "pgrab sql-look", w->env->call_us);
	db_be(w->db, DB_OF_NODE | DB_PATIENT);
	return w;
}

static void
sql_close(void *self)
{
	struct sql_worker *w = self;

	sql_sessions_fini(&w->sessions);
	db_destroy(&w->db);
	free(w);
}

static bool
told_to_stop(const struct pgrab_host *host)
{
	return host->stop(host->ctx) != PGRAB_STOP_NONE;
}

struct db_step
sql_open_step(const struct sql_work *k, const char *params[4])
{
	params[0] = k->incarnation;
	params[1] = k->id;
	params[2] = k->version;
	params[3] = k->run->proof;
	return (struct db_step){.sql = sql_text(k->session->own ? "sql_open" : "sql_open_owner"),
	    .ours = !k->session->pooled,
	    .n_params = k->session->own ? 3 : 4,
	    .params = params};
}

/* Statements before those of the text. */
#define BEFORE 2

/* Asked first behind a pooler: only the backend itself can say which one works for us. */
static enum rc
begin_pooled(struct sql_work *k, struct db_step *step, PGresult **res, struct err *err)
{
	struct sql_session *s = k->session;
	size_t failed;
	enum rc rc;

	s->pid[0] = '\0'; /* what it was may serve others now */
	rc =
	    db_steps(s->db, step, BEFORE, k->host->stop_fd, k->worker->env->kill_grace_us, res, &failed, err);
	if (rc == RC_OK) {
		snprintf(s->pid, sizeof s->pid, "%s", db_text(res[1], 0, 0));
		snprintf(s->since, sizeof s->since, "%s", db_text(res[1], 0, 1));
	}
	for (size_t i = 0; i < BEFORE; i++) {
		PQclear(res[i]);
		res[i] = NULL;
	}
	return rc;
}

static struct db_step
plain_step(struct sql_work *k, size_t i)
{
	const struct sql_text *t = &k->text;
	bool last = i == t->n - 1;

	return (struct db_step){.sql = t->statement[i],
	    .n_params = last ? (int)t->n_params : 0,
	    .params = (const char *const *)t->param,
	    .row = last ? sql_session_row : sql_session_drop_row,
	    .ctx = k->session};
}

void
sql_text_steps(
    struct sql_work *k, struct db_step *step, const char **params, const char *limit, struct pgarray *array)
{
	const struct sql_text *t = &k->text;

	for (size_t i = 0; i < t->n_params; i++)
		pgarray_text(array, t->param[i]);
	params[0] = t->statement[t->n - 1];
	params[1] = pgarray_str(array);
	params[2] = limit;
	for (size_t i = 0; i < t->n; i++) {
		if (sql_is_plain(t->statement[i]))
			step[i] = plain_step(k, i);
		else if (i < t->n - 1)
			step[i] = (struct db_step){.sql = sql_text("sql_run"),
			    .n_params = 1,
			    .params = (const char *const *)&t->statement[i]};
		else
			step[i] = (struct db_step){
			    .sql = sql_text("sql_run_last"), .n_params = 3, .params = params};
	}
}

/* All n steps; *failed_out: the first that was not done. */
static enum rc
take_steps(
    struct sql_work *k, struct db_step *step, size_t n, PGresult **res, size_t *failed_out, struct err *err)
{
	size_t from = k->session->pooled ? BEFORE : 0;
	enum rc rc = k->session->pooled ? begin_pooled(k, step, res, err) : RC_OK;

	*failed_out = 0;
	if (rc != RC_OK)
		return rc;
	rc = db_steps(k->session->db, &step[from], n - from, k->host->stop_fd, k->worker->env->kill_grace_us,
	    &res[from], failed_out, err);
	*failed_out += from;
	return rc;
}

/* Opens the transaction, checks the fence, runs the text, whose rows go to the session's output, and cleans
 * the session while it is still ours even behind a pooler; *clean_out: surely. */
static enum rc
carry_out(struct sql_work *k, bool *clean_out, struct err *err)
{
	const struct sql_text *t = &k->text;
	size_t n = BEFORE + t->n + 1, failed;
	AUTO_FREE struct db_step *step = xcalloc(n, sizeof *step);
	AUTO_FREE PGresult **res = xcalloc(n, sizeof(PGresult *));
	const char *open[4], *last[3], *settle[] = {k->incarnation};
	AUTO_ARRAY struct pgarray params = {0};
	enum rc rc;

	step[0] = (struct db_step){.sql = "begin isolation level read committed"};
	step[1] = sql_open_step(k, open);
	sql_text_steps(k, &step[BEFORE], last, NUMBER(OUTBUF_LIMIT), &params);
	step[n - 1] = (struct db_step){.sql = sql_text("sql_settle"), .n_params = 1, .params = settle};
	rc = take_steps(k, step, n, res, &failed, err);
	*clean_out = rc == RC_OK && sql_session_settled(k->session, res[n - 1]);
	if (rc == RC_OK && step[n - 2].row == NULL)
		sql_session_print(
		    k->session, db_text(res[n - 2], 0, 0), (size_t)PQgetlength(res[n - 2], 0, 0));
	k->result->not_started = rc == RC_AGAIN && failed < BEFORE && !told_to_stop(k->host);
	if (rc != RC_OK)
		sql_text_why(t, failed >= BEFORE && failed < n - 1 ? failed - BEFORE + 1 : 0,
		    failed < n ? res[failed] : NULL, err, k->result);
	for (size_t i = 0; i < n; i++)
		PQclear(res[i]);
	return rc;
}

static struct db_step
ours(const struct sql_work *k, const char *name, int n_params, const char *const *params)
{
	return (struct db_step){
	    .sql = sql_text(name), .ours = !k->session->pooled, .n_params = n_params, .params = params};
}

#define LAST_STEPS 4 /* record, finish, commit, clean */

/* The end of the transaction: the record of a step, the finish of the run, or both.  It waits for a row that
 * another session has locked, as long as the run may take: else the finished work would have to be done
 * again.  A deferred trigger may have queued itself again and fire at the commit, so the session is cleaned
 * once more; *clean: still. */
static enum rc
finish(struct sql_work *k, bool *clean, struct err *err)
{
	struct sql_session *s = k->session;
	struct exec_env const *env = k->worker->env;
	AUTO_FREE char *printed = outbuf_text(s->out);
	const char *output = k->output != NULL ? k->output : printed;
	const char *cut = k->output == NULL && outbuf_truncated(s->out) ? "t" : "f";
	const char *began = NUMBER(clock_mono_us() - k->begun_us);
	const char *own[] = {k->id, k->version, k->incarnation, began, output[0] == '\0' ? NULL : output, cut,
	    NUMBER(env->node_id == NULL ? 0 : atomic_load(env->node_id)), env->node_name};
	const char *others[] = {k->id, k->version, began, own[4], cut, k->run->proof};
	const char *record[] = {k->id, k->version, s->own ? k->incarnation : k->run->proof, k->step, printed};
	struct db_step step[LAST_STEPS];
	PGresult *res[LAST_STEPS] = {0};
	size_t n = 0, commit, failed;
	enum rc rc;

	if (k->step != NULL)
		step[n++] = ours(k, s->own ? "sql_step" : "sql_step_owner", 5, record);
	if (k->closes)
		step[n++] = s->own ? ours(k, "sql_finish", 8, own) : ours(k, "sql_finish_owner", 6, others);
	commit = n;
	step[n++] = (struct db_step){.sql = "commit"};
	step[n++] = ours(k, "sql_clean", 0, NULL);
	rc = db_steps(s->db, step, n, k->host->stop_fd, env->kill_grace_us, res, &failed, err);
	*clean = *clean && rc == RC_OK && db_bool(res[n - 1], 0, 0);
	if (PQresultStatus(res[commit]) == PGRES_COMMAND_OK)
		rc = RC_OK; /* whatever came of the cleaning */
	if (rc != RC_OK)
		sql_text_why(&k->text, 0, failed < n ? res[failed] : NULL, err, k->result);
	for (size_t i = 0; i < n; i++)
		PQclear(res[i]);
	return rc;
}

/* The work was good, but its finish was refused through no fault of the task: the server's, or the history
 * has no partition for now (nobody has made one for days).  All of it is rolled back and soon done again;
 * that costs no attempt. */
static bool
put_off(struct sql_work *k, enum rc rc, const struct err *err)
{
	struct err ignored;

	if (fault_no_partition(rc, err))
		return db_script(k->session->db, "rollback", &ignored) == RC_OK &&
		       store_days(k->worker->db, &ignored) == RC_OK;
	/* A person has cancelled it: it must not begin again at once. */
	return rc == RC_AGAIN && fault_of(err->sqlstate) == FAULT_SERVER &&
	       strcmp(err->sqlstate, "57014") != 0 && !told_to_stop(k->host);
}

static void
run_in_transaction(struct sql_work *k)
{
	struct err err = {0};
	bool clean;
	enum rc rc = carry_out(k, &clean, &err);

	if (rc == RC_OK && k->host->stop(k->host->ctx) == PGRAB_STOP_FENCED)
		rc = err_set(&err, RC_LOST, "the node lost its lease");
	else if (rc == RC_OK) {
		rc = finish(k, &clean, &err);
		k->result->not_started = put_off(k, rc, &err);
	}
	if (rc == RC_UNKNOWN)
		rc = sql_find_out(k);
	if (!clean || rc != RC_OK)
		sql_session_clean(k->session);
	k->committed = rc == RC_OK;
	/* Still unknown: nothing is recorded, so that recovery takes the run and ends its backend. */
	k->result->recorded = (k->committed && k->closes) || rc == RC_UNKNOWN;
	k->result->succeeded = k->committed && k->closes;
}

/* What a person has to mend is logged, now and then. */
void
sql_not_begun(struct sql_work *k, const char *why)
{
	struct sql_sessions *all = &k->worker->sessions;
	int64_t now = clock_mono_us();

	k->result->not_started = !told_to_stop(k->host);
	snprintf(k->result->error, sizeof k->result->error, "%s", why);
	if (k->result->not_started && now - all->said_us > SAY_US) {
		k->host->log(k->host->ctx, why);
		all->said_us = now;
	}
}

void
sql_run_on_session(struct sql_work *k)
{
	struct err err = {0};
	enum rc rc;

	if (k->session == NULL) {
		sql_not_begun(k, "this node has no connection for the owner of the task");
		return;
	}
	rc = sql_session_ready(k->session, &err);
	if (rc != RC_OK || told_to_stop(k->host)) {
		sql_not_begun(k, rc != RC_OK ? err.text : "stopped");
		return;
	}
	k->session->out = outbuf_create(OUTBUF_LIMIT);
	k->session->host = k->host;
	k->session->rows = k->session->swollen = false;
	if (k->begun_us == 0)
		k->begun_us = clock_mono_us();
	if (k->text.transaction)
		run_in_transaction(k);
	else
		sql_run_alone(k);
	outbuf_destroy(&k->session->out);
	if (k->session->swollen)
		db_disconnect(k->session->db);
}

void
sql_work_make(struct sql_work *k, struct sql_worker *w, const struct pgrab_run *run,
    const struct pgrab_host *host, struct pgrab_result *result)
{
	*k = (struct sql_work){.worker = w, .run = run, .host = host, .result = result, .closes = true};
	snprintf(k->id, sizeof k->id, "%" PRId64, run->task_id);
	snprintf(k->version, sizeof k->version, "%" PRId64, run->version);
	snprintf(k->incarnation, sizeof k->incarnation, "%" PRId64, run->incarnation);
}

static void
sql_run(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct sql_worker *w = self;
	struct sql_work k;

	sql_work_make(&k, w, run, host, result);
	k.session = sql_session_of(&w->sessions, run->owner, run->incarnation);
	if (sql_has_steps(run))
		sql_run_steps(&k);
	else if (sql_text_take(run, &k.text, result))
		sql_run_on_session(&k);
	sql_text_fini(&k.text);
	if (!result->succeeded && told_to_stop(host))
		result_fail(result, "%s", stop_text(host->stop(host->ctx)));
}

const struct pgrab_executor exec_sql = {
    .abi = PGRAB_EXECUTOR_ABI,
    .kind = "sql",
    .summary = "run SQL in the same database, exactly once in effect",
    .open = sql_open,
    .close = sql_close,
    .run = sql_run,
};
