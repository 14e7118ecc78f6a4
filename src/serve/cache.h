/*
 * What the database said a moment ago.  A list or summary that many ask for is asked for once a second;
 * one that takes long so seldom that a fiftieth of the time goes into it, but four times a minute.  By
 * role, for each sees what is its own.  Whatever is changed by way of this program shows at once.
 */
#ifndef PGRAB_SERVE_CACHE_H
#define PGRAB_SERVE_CACHE_H

#include "db/pg.h"

struct cache;

struct cache *cache_create(void);
void cache_destroy(struct cache **c);

/* As db_query, for a statement that changes nothing.  Any thread; nobody waits for another's question. */
CHECKED enum rc cache_query(struct cache *c, struct db *db, int role, const char *sql, int n,
    const char *const *params, PGresult **out, struct err *err);

/* Something was changed: nothing that was asked before counts any more. */
void cache_clear(struct cache *c);

#endif
