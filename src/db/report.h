/* Reading for people and programs: a text of src/db/sql as rows, as a JSON array, or as one JSON object.
 * The texts are plain SELECTs whose order of columns is the order of keys.  enum rc: as db_query. */
#pragma once

#include "base/buf.h"
#include "base/rc.h"
#include "db/pg.h"

/* What the command line, the page and the API say of an empty list. */
#define SAYS_NO_NODES  "No node has ever run here. Start one: pgrab run"
#define SAYS_NO_TASKS  "No such tasks."
#define SAYS_NO_RUNS   "No such runs."
#define SAYS_NO_CHAINS "No such chains."
#define SAYS_NO_LIMITS "No such limits."

enum report_shape {
	REPORT_ROWS,    /* as they are */
	REPORT_ARRAY,   /* one row, one column: an array, one element per line; "[]" when there are no rows */
	REPORT_OBJECTS, /* one column: an object per row */
	REPORT_FIELDS   /* two columns, name and value, of the first row's columns that are not null */
};

CHECKED enum rc report_ask(struct db *db, enum report_shape shape, const char *name, int n_params,
    const char *const *params, PGresult **out, struct err *err);
#define report_rows(db, ...)    report_ask(db, REPORT_ROWS, __VA_ARGS__)
#define report_array(db, ...)   report_ask(db, REPORT_ARRAY, __VA_ARGS__)
#define report_objects(db, ...) report_ask(db, REPORT_OBJECTS, __VA_ARGS__)
#define report_fields(db, ...)  report_ask(db, REPORT_FIELDS, __VA_ARGS__)

/* Its SQL. */
void report_sql(struct buf *sql, enum report_shape shape, const char *name);
