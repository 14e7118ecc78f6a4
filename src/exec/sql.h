/*
 * The inside of kind sql, for sql.c (a task in a transaction) and sql_alone.c (one outside) only.
 */
#ifndef PGRAB_EXEC_SQL_H
#define PGRAB_EXEC_SQL_H

#include "exec/exec.h"
#include "exec/sql_session.h"
#include "exec/sql_text.h"

struct sql_worker {
	const struct exec_env *env;
	struct db *db; /* as the node itself, to find out what became of a run whose connection was lost */
	struct sql_sessions sessions;
};

/* One run under way. */
struct sql_work {
	struct sql_worker *worker;
	struct sql_session *session;
	const struct pgrab_run *run;
	const struct pgrab_host *host;
	struct pgrab_result *result;
	struct sql_text text;
	int64_t begun_us;
	char id[24], version[24], incarnation[24];
};

/* The check of the fence before the work; params: its parameters, which name the run. */
struct db_step sql_open_step(const struct sql_work *k, const char *params[4]);

/* The connection was lost: ends its backend on the server.  False: that failed; other nodes end the
 * run, and its backend first. */
bool sql_end_backend(const struct sql_work *k);
/* The connection was lost: ends the backend and finds out whether it had committed.  RC_OK: it had.
 * RC_AGAIN: it had not, and never will.  RC_UNKNOWN: this node cannot find out. */
enum rc sql_find_out(struct sql_work *k);

/* args.transaction = false: the text's only statement, by itself.  The outcome goes into k->result. */
void sql_run_alone(struct sql_work *k);

#endif
