/* What the database said a moment ago.  A list or summary that many clients ask for is read once a
 * second; one that takes long is read less often, so that it takes a fiftieth of the time, but at least
 * four times a minute.  By role, because each role sees only what is its own.  Changes that are made
 * through this program show at once. */
#pragma once

#include "db/pg.h"

struct cache;

struct cache *cache_create(void);
void cache_destroy(struct cache **c);

/* As db_query, for a statement that changes nothing.  Any thread; no thread waits
 * for the question of another. */
CHECKED enum rc cache_query(struct cache *c, struct db *db, int role, const char *sql, int n,
    const char *const *params, PGresult **out, struct err *err);

/* Something was changed: nothing that was asked before counts any more. */
void cache_clear(struct cache *c);
