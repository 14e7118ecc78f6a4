/* The executors of a node: the built-in kinds and what was loaded from shared objects. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "pgrab/executor.h"

struct db;
struct keeper;
struct bounds_list;
struct login;
struct sql_group;

/* How to log in as an owner of sql tasks. */
struct exec_login {
	const char *owner, *dsn;
};

/* What built-in executors get as `internal` of open(): all borrowed, all outlive the workers. */
struct exec_env {
	struct keeper *keeper; /* NULL when neither shell nor exec is allowed */
	const char *dsn;       /* connection string for sql and notify; "" = libpq's own environment */
	const char *role;      /* the role that dsn logs in as */
	const char *database;  /* where */
	const struct exec_login *logins; /* how to log in as other owners of sql tasks */
	size_t n_logins;
	bool superuser_ok;                                  /* a login may be a superuser */
	void (*login_failed)(void *ctx, const char *owner); /* called when one is refused; may be NULL */
	void *login_ctx;
	const char *node_name;
	const _Atomic int64_t *node_id; /* for the history of sql runs */
	int64_t kill_grace_us;
	/* A call that no stop ends takes this long at most: a node that is fenced must be done with it before
	 * others begin the run. */
	int64_t call_us;
	const struct bounds_list *bounds;
	const char *callback_url; /* where receivers of http requests answer later; NULL: nowhere */
};

/* Connects, if need be, and checks that the connection is `owner`'s, to the node's database, and not a
 * superuser's (unless that is allowed).  RC_BAD says whose it is. */
CHECKED enum rc exec_login_check(
    struct db *db, const struct exec_env *env, const char *owner, struct login *out, struct err *err);

/* One per built-in kind, each in a file of its own. */
extern const struct pgrab_executor exec_sql;
extern const struct pgrab_executor exec_shell;
extern const struct pgrab_executor exec_exec;
extern const struct pgrab_executor exec_http;
extern const struct pgrab_executor exec_notify;
extern const struct pgrab_executor exec_noop;

/*
 * Several runs of kind sql in one transaction, so that they share its cost: sql_group.c.  All of one owner
 * and one incarnation, in the thread of the worker; state: of exec_sql.open().
 *
 * add: executes the text of one more.  True: it is done, and what becomes of it is the end's to say; run and
 * host must last until then.  False: it is not part of the group, nothing of it has happened, and it is to
 * run by itself.
 * end: RC_OK: all are recorded as succeeded.  RC_AGAIN: nothing of any has happened, and each is to run by
 * itself.  RC_UNKNOWN: recovery will find out.
 */
struct sql_group *sql_group_begin(void *state, size_t max);
bool sql_group_add(struct sql_group *g, const struct pgrab_run *run, const struct pgrab_host *host);
bool sql_group_takes_more(const struct sql_group *g);
CHECKED enum rc sql_group_end(struct sql_group **g);

/* A text that takes longer than this is taken out of its group. */
#define SQL_GROUP_US (50 * INT64_C(1000))

struct exec_set;

/* The executors for these kinds (comma-separated list, as in the `allow` setting) and these shared
 * objects (comma-separated paths, may be NULL).  RC_BAD: an unknown kind (the text lists what there
 * is), a file that does not load, a wrong ABI number, a missing symbol, a kind that exists already. */
CHECKED enum rc
exec_set_create(const char *kinds, const char *plugins, struct exec_set **out, struct err *err);
void exec_set_destroy(struct exec_set **s); /* after the last worker has ended */

size_t exec_set_count(const struct exec_set *s);
const struct pgrab_executor *exec_set_at(const struct exec_set *s, size_t i);
const struct pgrab_executor *
exec_set_find(const struct exec_set *s, const char *kind); /* NULL: not allowed here; s may be NULL */

/* Is it a valid name for a kind?  Is it a built-in kind, allowed or not? */
bool exec_kind_valid(const char *kind);
bool exec_kind_builtin(const char *kind);

/* All built-in executors, ended by NULL, for lists and help. */
extern const struct pgrab_executor *const exec_builtin[];
