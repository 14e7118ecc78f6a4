/*
 * One connection to PostgreSQL with deadlines.  Owned by one thread.
 *
 * Rules kept here and nowhere else:
 *   - every call has a client-side deadline; one that passes is RC_UNKNOWN, never "failed", and the
 *     connection is thrown away;
 *   - only fault.h says what an SQLSTATE means;
 *   - no state is left in a session that others may get: behind a pooler each transaction sets for
 *     itself what it needs, and nothing is prepared under a name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/buf.h"
#include "base/rc.h"

struct db;

/* Does not connect yet.  dsn: "" or NULL = libpq's own environment; app: application_name, at most 63 bytes
 * count.  Both copied. */
struct db *db_create(const char *dsn, const char *app, int64_t timeout_us);
void db_destroy(struct db **db);
#define AUTO_DB AUTO(db_destroy)

/* Connects if there is no usable connection.  RC_OK; RC_AGAIN: the server cannot be reached or is starting or
 * full (try later); RC_BAD: it refused us for good (password, no such database, no such role). */
CHECKED enum rc db_connect(struct db *db, struct err *err);
void db_disconnect(struct db *db);
PGconn *db_conn(struct db *db); /* NULL when not connected; borrowed */

enum db_trait {
	DB_OF_NODE = 1, /* a read-only server (a standby) is refused */
	DB_PATIENT =
	    2,        /* of a node that is up: what a person can mend (a login, rights, a database's name) is
			   RC_AGAIN, not RC_BAD */
	DB_KEEPS = 4, /* of a thread that sends the same few texts again and again: they are prepared, unless
			   there is a pooler in between; known by their addresses, so these must not change */
	DB_PLAIN =
	    8, /* the text of a task runs there: with the settings of the role and the database, not ours */
	DB_ENDS = 16, /* of somebody who only wants an answer: the server itself ends what takes longer than
			 db_create said, not only once we are connected again */
};
/* From now on it is that, too.  Before the first connect; DB_PATIENT at any time. */
void db_be(struct db *db, unsigned traits);

/* For a thread of a node: only the server of which *server is the key will do, once it is not 0 (any).  A
 * connection to another one is not used, and one that waits is given up.  (Behind a pooler nobody knows which
 * server works for us.)  Call before the first connect. */
void db_stays_with(struct db *db, const _Atomic uint64_t *server);

/* Tells servers apart, and what one was before a promotion from what it is since; never 0. */
uint64_t db_server_key(int64_t system, const char *timeline);

/* The deadline of the calls from now on (0: what db_create said); a connection is made in its own time. */
void db_within(struct db *db, int64_t within_us);
/* Everything from now on, connecting too, is over by then (on clock_mono_us; 0: no such end). */
void db_by(struct db *db, int64_t by_us);

/* Is this connection to a pooler?  Then each transaction may run on another server. */
bool db_pooled(const struct db *db);

/* Watch for the end of the server's life (life.h).  word: the operator's, see there.  Before the first
 * connect. */
void db_watch(struct db *db, bool word);
/* Would we be able to prove the end of the life of the server that this connection is to? */
bool db_can_tell(const struct db *db);
/* Has the server that the last connection was to ended its life since, as far as can be proven? */
bool db_server_over(const struct db *db);

/* How many connections this process has open right now.  Any thread. */
int64_t db_open_count(void);

/* How many connections have been made: a new one may lead to another server. */
unsigned db_generation(const struct db *db);

/* Times in results are in this zone instead of UTC, if the server knows it.  Call
 * before the first connect. */
void db_zone(struct db *db, const char *zone);

/* From now on, of an open connection too.  RC_BAD: there is no such zone. */
CHECKED enum rc db_zone_now(struct db *db, const char *zone, struct err *err);
const char *db_zone_name(const struct db *db);

/* Who we talk to, without the password: "postgres@/run/x:5432/pgrab".  Owned by db. */
const char *db_target(struct db *db);

/*
 * One statement with text parameters (NULL = SQL null), connecting first if need be.  The result is
 * in *out (PQclear it), which is NULL unless RC_OK.
 *   RC_OK       done; the rows are in *out
 *   RC_AGAIN    nothing happened: no connection, a lock not granted, the statement cancelled; try
 *               again later
 *   RC_RACE     nothing happened: 40001 or 40P01, another session was faster
 *   RC_UNKNOWN  the connection or the deadline was lost while the server worked: it may have committed
 *   RC_BAD      the server refused the statement: err->sqlstate, and its message and hint in err->text
 */
CHECKED enum rc db_query(
    struct db *db, const char *sql, int n_params, const char *const *params, PGresult **out, struct err *err);

/* Opens a transaction, with what our statements need; `more` is further SQL for it.  As db_script. */
CHECKED enum rc db_begin(struct db *db, const char *more, struct err *err);

/* Several statements in one query, no parameters, no results.  Same answers. */
CHECKED enum rc db_script(struct db *db, const char *sql, struct err *err);

/* Waits until something unasked for (a notification) has come.  RC_AGAIN: nothing did. */
CHECKED enum rc db_await(struct db *db, int64_t until_us, struct err *err);

/* Several statements, sent in one go: none is executed once one has failed.  `sync` ends a group: each group
 * is a transaction of its own unless it says BEGIN, and a failure ends only its own group.  Uses the
 * connection that is open: RC_UNKNOWN when there is none.  result[i], if given: the answer to each that got
 * one, including the error that ended it; PQclear them all.  *failed_out: the first that failed, or n.
 * stop_fd >= 0: there is no deadline; when it becomes readable (a run's stop), the statement under way is
 * cancelled and the server given cancel_us to say so: RC_UNKNOWN when it does not. */
struct db_step {
	const char *sql;
	bool ours; /* a text of ours that stays at its address: it may be prepared */
	int n_params;
	const char *const *params;
	bool sync; /* the last one's is implied */
	/* If given, rows are handed on as they come, so that they need no memory, and are not in
	 * the result. */
	void (*row)(void *ctx, const PGresult *res);
	void *ctx;
};
void db_forget_names(struct db *db); /* what was prepared is gone */
CHECKED enum rc db_steps(struct db *db, const struct db_step *step, size_t n, int stop_fd, int64_t cancel_us,
    PGresult **result, size_t *failed_out, struct err *err);

/* One statement, in no transaction but its own.  As db_steps otherwise. */
CHECKED enum rc
db_alone(struct db *db, const struct db_step *step, int stop_fd, int64_t cancel_us, struct err *err);

/* Drops an idle connection that the server has closed, so that the next call makes another. */
void db_drop_dead(struct db *db);

void db_clear(PGresult **res);
#define AUTO_CLEAR AUTO(db_clear)

/* Fields.  A null or malformed field gives 0 / "" (the columns asked for are ours). */
int64_t db_int64(const PGresult *r, int row, int col);
double db_double(const PGresult *r, int row, int col);
bool db_bool(const PGresult *r, int row, int col);
const char *db_text(const PGresult *r, int row, int col); /* "" for null; inside r */
/* The same by the name of the column. */
const char *db_field(const PGresult *r, int row, const char *column);
double db_field_double(const PGresult *r, int row, const char *column);
bool db_field_bool(const PGresult *r, int row, const char *column);
/* In a result of our own, as PQsetvalue; text NULL: null. */
void db_set(PGresult *r, int row, int col, const char *text);

/* Numbers as parameters.  NUMBER: the text of v, which lasts as long as the block that this stands in. */
#define NUMBER_MAX 24
#define NUMBER(v)  db_number((char[NUMBER_MAX]){0}, v)
const char *db_number(char *buf, int64_t v); /* into NUMBER_MAX bytes; returns buf */

/* Text of array parameters: '{1,2,3}', '{"a b",NULL}'.  Embedded, all-zero is the empty array. */
struct pgarray {
	struct buf text;
	bool filled; /* not only with nulls */
};
void pgarray_fini(struct pgarray *a);
void pgarray_int(struct pgarray *a, int64_t v);
void pgarray_text(struct pgarray *a, const char *s); /* NULL adds a null */
void pgarray_null(struct pgarray *a);
const char *pgarray_str(struct pgarray *a); /* closes it; valid until the next change */
/* The same, but NULL when all are null: an unnest() of several arrays fills up the shorter ones. */
const char *pgarray_sparse(struct pgarray *a);
#define AUTO_ARRAY AUTO(pgarray_fini)
