/* Inserts a task with only the columns that were given; the rest are the table's defaults. */
#pragma once

#include <stddef.h>

#include "base/rc.h"
#include "db/pg.h"

struct new_value {
	const char *column; /* a name of ours, never input */
	const char *text;
};

/* Not a real column: microseconds from now, for run_at. */
#define NEW_IN_US "in_us"
/* Nor is this: ids of further parents, '{18,19}', which become rows of pgrab.edge. */
#define NEW_EDGES "edges"

#define NEW_VALUES_MAX 64

/* One row: the id, and the new task as a JSON object.  enum rc: as db_query. */
CHECKED enum rc
store_add(struct db *db, const struct new_value *v, size_t n, PGresult **out, struct err *err);

/* The same for an existing task: sets these columns; an empty text is the default.  No row: no such task. */
CHECKED enum rc store_edit(
    struct db *db, const char *id, const struct new_value *v, size_t n, PGresult **out, struct err *err);
