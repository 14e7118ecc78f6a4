/* Internal to db: which rows of a batch are free to work on, when the statement for all of them has
 * given up waiting for one. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "db/pg.h"

enum row_state { ROW_GONE, ROW_LOCKED, ROW_FREE };

struct row_lock {
	int64_t id, version;
	enum row_state state;
};

/* Did a statement fail because another session has a row locked? */
bool row_lock_refused(enum rc rc, const struct err *err);

/* Opens a transaction and finds out for each row, sorted by (id, version), what can be done with it; the free
 * ones are locked now.  RC_OK: row_locks_end must follow, with the result of the work. */
CHECKED enum rc row_locks_take(struct db *db, struct row_lock *f, size_t n, struct err *err);

/* Commits when rc is RC_OK, else rolls back; returns the result (RC_UNKNOWN: it may have committed). */
enum rc row_locks_end(struct db *db, enum rc rc, struct err *err);
