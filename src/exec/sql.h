/* The inside of kind sql, for its own files only: sql.c (a task in a transaction), sql_group.c (several in
 * one), sql_alone.c (one outside), sql_steps.c (one in several), sql_lost.c (whose connection was lost),
 * sql_session.c (connections) and sql_text.c (the text of a task). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/outbuf.h"
#include "base/rc.h"
#include "db/pg.h"
#include "exec/exec.h"

/* sql_text.c: what there is to say about the text of a task: its statements, its errors. */
struct sql_text {
	char **statement; /* owned */
	size_t n;
	const char **param; /* borrowed from the run; NULL: a null */
	size_t n_params;
	const char *signal; /* borrowed: what came with its signal; NULL: it waits for none */
	bool transaction;   /* false: args.transaction says so */
};

/* False: the text is refused, result->error says why. */
bool sql_text_take(const struct pgrab_run *run, struct sql_text *out, struct pgrab_result *result);
/* The same for the text of one step. */
bool sql_text_of_step(const char *command, struct sql_text *out, struct pgrab_result *result);
void sql_text_fini(struct sql_text *t);

/* May the server be given it as it is, because it can neither end the transaction nor COPY?  Its first word
 * decides; a statement with any other is executed by a function on the server. */
bool sql_is_plain(const char *statement);

/* Why it failed.  res: the server's answer, or NULL; number: of the statement that failed, from 1, or 0. */
void sql_text_why(const struct sql_text *t, size_t number, const PGresult *res, const struct err *err,
    struct pgrab_result *result);

/* sql_session.c: the connections of one worker, one for each owner, made when it is needed.  session_user is
 * the owner, because no text gets past that boundary: SET ROLE, SECURITY DEFINER, deferred triggers all lead
 * back to the role that logged in.  Owned by the worker's thread. */
#define SQL_SESSIONS_MAX 4 /* per worker; the least recently used makes room */

struct sql_session {
	const struct exec_env *env;
	struct db *db;
	char *owner;
	const char *dsn; /* borrowed */
	bool own;        /* of the node's own role */
	bool pooled;     /* each transaction may run on another server */
	int64_t incarnation, used_us;
	unsigned generation; /* of the connection whose login was checked */
	char pid[24];        /* of our backend on the server; "": a pooler has not said which one it is */
	char since[48];      /* a moment at which it existed: process ids are reused */
	/* of the run under way */
	struct outbuf *out;
	bool rows;    /* there was one */
	bool swollen; /* and a large one: the connection keeps that much memory */
	const struct pgrab_host *host;
};

struct sql_sessions {
	const struct exec_env *env;
	struct sql_session *item[SQL_SESSIONS_MAX];
	int64_t said_us; /* when a failed login was last logged */
};

/* The one for this owner; NULL: this node cannot log in as that role.  Its application_name has the
 * incarnation in it, so that peers can end it when we are dead. */
struct sql_session *sql_session_of(struct sql_sessions *all, const char *owner, int64_t incarnation);

/* Connected, and checked to be the owner's.  Not RC_OK: nothing was executed. */
CHECKED enum rc sql_session_ready(struct sql_session *s, struct err *err);

/* From now on it prints for this run; out: borrowed, NULL: nobody reads it. */
void sql_session_turn(struct sql_session *s, struct outbuf *out, const struct pgrab_host *host);

/* What the run prints: for its finish, and for those who watch it. */
void sql_session_print(struct sql_session *s, const char *text, size_t len);
/* A row of it: columns separated by |.  ctx: the session. */
void sql_session_row(void *ctx, const PGresult *res);

/* A row that is not printed. */
void sql_session_drop_row(void *ctx, const PGresult *res);

/* By the answer of sql_settle: is it clean for sure?  When an extension is the answer, the names may be gone,
 * too. */
bool sql_session_settled(struct sql_session *s, const PGresult *settled);

/* Leaves the session as new, or drops the connection. */
void sql_session_clean(struct sql_session *s);

/* Ends our backend on the server after the connection to it was lost.  RC_OK: it is gone. */
CHECKED enum rc sql_session_end_backend(struct sql_session *s, struct err *err);

void sql_sessions_fini(struct sql_sessions *all);

struct sql_worker {
	const struct exec_env *env;
	struct db *db; /* as the node itself, to find out what became of a run whose connection was lost */
	struct sql_sessions sessions;
};

struct sql_steps;

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
	/* of the transaction under way */
	struct sql_steps *steps; /* NULL: the task is one transaction */
	const char *step;        /* what it records, NULL: nothing */
	bool closes;             /* with it the run is over */
	const char *output;      /* of the run, NULL: what this transaction prints */
	bool committed;          /* it was */
};

/* One that is a single transaction, until it is said otherwise; without its session and text. */
void sql_work_make(struct sql_work *k, struct sql_worker *w, const struct pgrab_run *run,
    const struct pgrab_host *host, struct pgrab_result *result);

/* The statements of its text.  params: of the last one, if it is not plain; array: its parameters. */
void sql_text_steps(
    struct sql_work *k, struct db_step *step, const char **params, const char *limit, struct pgarray *array);

/* The check of the fence before the work; params: its parameters, which name the run. */
struct db_step sql_open_step(const struct sql_work *k, const char *params[4]);

/* The connection was lost: ends its backend on the server.  False: that failed; other nodes end the
 * run, and its backend first. */
bool sql_end_backend(const struct sql_work *k);
/* The connection was lost: ends the backend and finds out whether it had committed.  RC_OK: it had.
 * RC_AGAIN: it had not, and never will.  RC_UNKNOWN: this node cannot find out. */
enum rc sql_find_out(struct sql_work *k);

/* One transaction of the run, on its session: k->text. */
void sql_run_on_session(struct sql_work *k);
/* Nothing was executed; why: for the result, and the log. */
void sql_not_begun(struct sql_work *k, const char *why);

/* args.steps: those that are not done yet.  The outcome goes into k->result. */
bool sql_has_steps(const struct pgrab_run *run);
void sql_run_steps(struct sql_work *k);
/* Asks the database whether k->step is recorded. */
CHECKED enum rc sql_step_recorded(struct sql_work *k, bool *recorded_out, struct err *err);

/* args.transaction = false: the text's only statement, by itself.  The outcome goes into k->result. */
void sql_run_alone(struct sql_work *k);
