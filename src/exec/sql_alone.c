/* args.transaction = false: one statement outside of any transaction of ours, for what refuses to run in one
 * (VACUUM, CREATE INDEX CONCURRENTLY, a procedure that commits).  Its effect and its finish are two things,
 * as with a shell task: at least once, or at most once when the task says so.  The finish is written by the
 * finisher, which is fenced. */

#include "exec/sql.h"

static enum rc
execute(struct sql_work *k, struct err *err)
{
	struct db_step step = {.sql = k->text.statement[0],
	    .n_params = (int)k->text.n_params,
	    .params = (const char *const *)k->text.param,
	    .row = sql_session_row,
	    .ctx = k->session};
	enum rc rc = db_alone(k->session->db, &step, k->host->stop_fd, k->worker->env->kill_grace_us, err);

	if (rc == RC_OK && PQtransactionStatus(db_conn(k->session->db)) != PQTRANS_IDLE)
		rc = err_set(err, RC_BAD,
		    "it has opened a transaction and not ended it, so all of it was rolled back; without "
		    "args.transaction = false a task is one transaction");
	return rc;
}

void
sql_run_alone(struct sql_work *k)
{
	struct err err = {0};
	const char *params[4];
	struct db_step open = sql_open_step(k, params);
	enum rc rc = RC_OK;

	/* For the session, where that is ours: behind a pooler the next statement may run anywhere. */
	if (k->session->pooled)
		k->session->pid[0] = '\0';
	else
		rc = db_script(k->session->db, "set client_connection_check_interval = '1s'", &err);
	if (rc == RC_OK)
		rc = db_query(k->session->db, open.sql, open.n_params, open.params, NULL, &err);
	if (rc == RC_AGAIN || rc == RC_UNKNOWN) {
		k->result->not_started = true;
		sql_session_clean(k->session);
		return;
	}
	if (rc == RC_OK)
		rc = execute(k, &err);
	k->result->succeeded = rc == RC_OK;
	if (rc != RC_OK)
		sql_text_why(&k->text, 0, NULL, &err, k->result);
	/* It may still be running: then nothing is recorded, so that recovery takes the
	 * run and ends its backend. */
	if (rc == RC_UNKNOWN)
		k->result->recorded = !sql_end_backend(k);
	sql_session_clean(k->session);
}
