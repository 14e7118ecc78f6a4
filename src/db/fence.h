/*
 * Internal to db: which rows of a batch are free to be worked on, when the statement for all of them has given up
 * waiting for one.
 */
#ifndef PGRAB_DB_FENCE_H
#define PGRAB_DB_FENCE_H

#include <stddef.h>
#include <stdint.h>

#include "db/pg.h"

enum fence_state { FENCE_GONE, FENCE_LOCKED, FENCE_FREE };

struct fence {
	int64_t id, version;
	enum fence_state state;
};

/* Did a statement fail because somebody has a row locked? */
bool fence_locked_out(enum rc rc, const struct err *err);

/* Opens a transaction and says of each row, sorted by (id, version), what can be done with it; the free ones are locked
 * now.  RC_OK: fence_close has to follow, with the answer of what was done. */
CHECKED enum rc fence_open(struct db *db, struct fence *f, size_t n, struct err *err);

/* Commits when rc is RC_OK, else rolls back; returns what became of it (RC_UNKNOWN: the commit may be through). */
enum rc fence_close(struct db *db, enum rc rc, struct err *err);

#endif
