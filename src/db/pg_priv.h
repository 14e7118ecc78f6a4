/* The inside of a connection, for pg.c and pg_pooled.c only. */
#pragma once

#include "db/life.h"
#include "db/pg.h"
#include "db/schema.h"

#define DB_NAMED_MAX 32

/* A text that was sent on this connection; "": it has no name yet. */
struct db_named {
	const char *sql; /* known by its address, so the memory must stay */
	bool asked;
	char name[20];
};

struct db {
	char *dsn;
	char *app;
	char *zone;                    /* of times in results; NULL: UTC */
	bool zone_known;               /* by db_zone_now(): a pooler's server is told, too */
	int64_t timeout_us, within_us; /* of everything; of a call, if it is not 0 */
	int64_t by_us;                 /* the end of everything, if it is not 0 */
	unsigned traits;               /* enum db_trait */
	bool pooled;                   /* the connection is to a pooler, whose servers others use as well */
	unsigned generation;           /* connections made so far */
	struct life life;              /* of the server that the last connection was to */
	PGconn *conn;                  /* NULL, or a connection that was usable after its last call */
	int pid;                       /* its backend, kept because libpq forgets it with the connection */
	char since[48]; /* a moment at which it existed, on the database's clock; "": not settled in */
	int lost_pid;   /* of a backend that may still work on a statement of ours, or 0 */
	char lost_since[48];
	const _Atomic uint64_t *server; /* which one is wanted (borrowed); NULL: whichever answers */
	uint64_t key, lost_key;         /* of the one that this connection is to; that lost_pid was on */
	char target[256];
	struct db_named named[DB_NAMED_MAX];
	size_t n_named;
	unsigned named_on; /* the generation that these belong to */
	unsigned names;    /* given so far; none is given twice */
};

struct db_setting {
	const char *name, *value;
};
extern const struct db_setting db_settings[]; /* ended by NULL */

/* For a connection that was lost while the server worked, and for all we know still does.
 * db_lost also returns the reason. */
void db_lose(struct db *db);
bool db_is_elsewhere(const struct db *db); /* to another server than the one that is wanted? */
CHECKED enum rc db_lost(struct db *db, struct err *err);

int64_t db_call_until(const struct db *db); /* the deadline of a call that begins now */
CHECKED enum rc db_flush(struct db *db, int64_t until_us, struct err *err);
/* RC_OK: the server has the request.  until_us: for the request alone. */
CHECKED enum rc db_cancel(struct db *db, int64_t until_us, struct err *err);
enum rc db_classify(const struct db *db, const PGresult *r, struct err *err);

/* Before anything else on a new connection: makes sure that what the old one was doing is over. */
CHECKED enum rc db_settle_in(struct db *db, struct err *err);

/* RC_OK: the next answer can be had from libpq without waiting. */
CHECKED enum rc db_await_answer(struct db *db, int64_t until_us, struct err *err);
/* Reads until the server is idle again.  The first error or the last rows count. */
CHECKED enum rc db_collect(struct db *db, int64_t until_us, PGresult **out, struct err *err);

/* Gives a text of ours a name on this connection when it is sent for the second time.  Returns what db_query
 * does; not in a pipeline. */
CHECKED enum rc db_name(struct db *db, const char *sql, struct err *err);
const char *db_name_of(const struct db *db, const char *sql); /* NULL: none */

/* Does the answer say that a name is no longer valid (it was dropped, or a migration has changed what it
 * returns)?  Nothing was executed; all names will be given afresh. */
bool db_name_is_stale(struct db *db, const PGresult *r, struct err *err);

/* Hands a statement to libpq, by its name if it has one. */
bool db_send(struct db *db, const char *name, const char *sql, int n_params, const char *const *params);

/* One statement in a transaction of its own, which sets what it needs for itself. */
CHECKED enum rc db_query_pooled(struct db *db, const char *sql, int n_params, const char *const *params,
    int64_t until_us, PGresult **out, struct err *err);
