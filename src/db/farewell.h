/*
 * The end of a node that could not say so itself.
 */
#pragma once

#include <stdint.h>

#include "base/rc.h"
#include "db/pg.h"
#include "db/store_task.h"

/*
 * Marks the node down if this incarnation still has its row, and puts back at once what it held.  Only for a
 * node of which nothing is left: no process of its runs, no thread.  by: who noticed, for the history.  May
 * be repeated, whatever it returned.  enum rc: as db_query.
 */
CHECKED enum rc store_farewell(struct db *db, int64_t node_id, int64_t incarnation, const char *by,
    struct recovered *out, struct err *err);
