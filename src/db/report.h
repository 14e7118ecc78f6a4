/*
 * Reading for people and programs: a text of src/db/sql as rows, as a JSON array, or as one JSON object.
 * The texts are plain SELECTs whose order of columns is the order of keys.  enum rc: as db_query.
 */
#pragma once

#include "base/rc.h"
#include "db/pg.h"

/* What the command line, the page and the API say of an empty list. */
#define SAYS_NO_NODES  "No node has ever run here. Start one: pgrab run"
#define SAYS_NO_TASKS  "No such tasks."
#define SAYS_NO_RUNS   "No such runs."
#define SAYS_NO_CHAINS "No such chains."
#define SAYS_NO_LIMITS "No such limits."

CHECKED enum rc report_rows(struct db *db, const char *name, int n_params, const char *const *params,
    PGresult **out, struct err *err);

/* One row, one column: an array, one element per line; "[]" when there are no rows. */
CHECKED enum rc report_array(struct db *db, const char *name, int n_params, const char *const *params,
    PGresult **out, struct err *err);

/* One column: an object per row. */
CHECKED enum rc report_objects(struct db *db, const char *name, int n_params, const char *const *params,
    PGresult **out, struct err *err);

/* Two columns, name and value, of the first row's columns that are not null. */
CHECKED enum rc report_fields(struct db *db, const char *name, int n_params, const char *const *params,
    PGresult **out, struct err *err);
