/*
 * The connections of one worker on which texts of sql tasks run: one for each owner, made when it is needed.
 *
 * session_user is the owner, because no text gets past that boundary: SET ROLE, SECURITY DEFINER, deferred
 * triggers all lead back to the role that logged in.  Owned by the worker's thread.
 */
#ifndef PGRAB_EXEC_SQL_SESSION_H
#define PGRAB_EXEC_SQL_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/outbuf.h"
#include "base/rc.h"
#include "db/pg.h"
#include "pgrab/executor.h"

struct exec_env;

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
	char pid[24];        /* of our backend on the server */
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

/* What the run prints: for its finish, and for those who watch it. */
void sql_session_print(struct sql_session *s, const char *text, size_t len);
/* A row of it: columns separated by |.  ctx: the session. */
void sql_session_row(void *ctx, const PGresult *res);

/* A row that is not printed. */
void sql_session_drop_row(void *ctx, const PGresult *res);

/* Leaves the session as new, or drops the connection. */
void sql_session_clean(struct sql_session *s);

/* Ends our backend on the server after the connection to it was lost.  RC_OK: it is gone. */
CHECKED enum rc sql_session_end_backend(struct sql_session *s, struct err *err);

void sql_sessions_fini(struct sql_sessions *all);

#endif
