#include "serve/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/thread.h"

#define ENTRIES    64
#define LEAST_US   US_PER_S
#define MOST_US    (15 * US_PER_S)
#define TIMES      50           /* a result is good for this many times as long as it took to ask */
#define BYTES_KEPT (256 * 1024) /* bytes of a result */

struct entry {
	char *key; /* NULL: empty */
	PGresult *result;
	int64_t asked_us, until_us; /* when; how long it counts */
	int64_t again_us;           /* since when a thread asks again; 0: none does */
};

struct cache {
	pthread_mutex_t lock; /* of all that follows; held for no longer than a copy takes */
	uint64_t changes;
	struct entry entry[ENTRIES];
};

struct cache *
cache_create(void)
{
	struct cache *c = xcalloc(1, sizeof *c);

	PTHREAD_OK(pthread_mutex_init(&c->lock, NULL));
	return c;
}

static void
empty(struct entry *e)
{
	PQclear(e->result);
	free(e->key);
	*e = (struct entry){0};
}

void
cache_destroy(struct cache **c)
{
	for (size_t i = 0; i < ENTRIES; i++)
		empty(&(*c)->entry[i]);
	PTHREAD_OK(pthread_mutex_destroy(&(*c)->lock));
	free(*c);
	*c = NULL;
}

void
cache_clear(struct cache *c)
{
	WITH_LOCK(&c->lock);
	c->changes++;
	for (size_t i = 0; i < ENTRIES; i++)
		empty(&c->entry[i]);
}

/* Each value has its length before it, so that no two questions share a key. */
static char *
key_of(int role, const char *zone, const char *sql, int n, const char *const *params)
{
	struct buf key = {0};

	buf_addf(&key, "%d %s %zu:%s", role, zone, strlen(sql), sql);
	for (int i = 0; i < n; i++)
		buf_addf(&key, " %zd:%s", params[i] == NULL ? (ssize_t)-1 : (ssize_t)strlen(params[i]),
		    params[i] == NULL ? "" : params[i]);
	return buf_steal(&key);
}

static PGresult *
copy_of(const PGresult *r)
{
	return PQcopyResult(r, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
}

/* While one thread asks again the others make do with what there is, if it is not much older. */
static bool
is_good(struct entry *e, int64_t now)
{
	if (now < e->until_us)
		return true;
	if (e->again_us != 0 && now < e->until_us + (e->until_us - e->asked_us))
		return true;
	e->again_us = now;
	return false;
}

/* NULL: ask the database; *changes_out goes to keep(). */
static PGresult *
look_up(struct cache *c, const char *key, uint64_t *changes_out)
{
	PGresult *found = NULL;
	int64_t now = clock_mono_us();

	WITH_LOCK(&c->lock);
	*changes_out = c->changes;
	for (size_t i = 0; i < ENTRIES && found == NULL; i++) {
		struct entry *e = &c->entry[i];

		if (e->key != NULL && strcmp(e->key, key) == 0 && is_good(e, now))
			found = copy_of(e->result);
	}
	return found;
}

static int64_t
counts_until(int64_t asked_us, int64_t now)
{
	int64_t times = TIMES * (now - asked_us);

	return asked_us + (times < LEAST_US ? LEAST_US : times > MOST_US ? MOST_US : times);
}

/* Replaces the same question, or the oldest.  Does not keep what was asked before a change. */
static void
keep(struct cache *c, char *key, const PGresult *r, int64_t asked_us, uint64_t changes)
{
	struct entry *e = &c->entry[0];
	AUTO_CLEAR PGresult *copy = PQresultMemorySize(r) > BYTES_KEPT ? NULL : copy_of(r);

	PTHREAD_OK(pthread_mutex_lock(&c->lock));
	for (size_t i = 0; i < ENTRIES; i++) {
		if (c->entry[i].key != NULL && strcmp(c->entry[i].key, key) == 0) {
			e = &c->entry[i];
			break;
		}
		if (c->entry[i].asked_us < e->asked_us)
			e = &c->entry[i];
	}
	if (copy != NULL && changes == c->changes) {
		empty(e);
		*e = (struct entry){key, copy, asked_us, counts_until(asked_us, clock_mono_us()), 0};
		key = NULL;
		copy = NULL;
	}
	PTHREAD_OK(pthread_mutex_unlock(&c->lock));
	free(key);
}

enum rc
cache_query(struct cache *c, struct db *db, int role, const char *sql, int n, const char *const *params,
    PGresult **out, struct err *err)
{
	char *key = key_of(role, db_zone_name(db), sql, n, params);
	uint64_t changes;
	int64_t asked_us = clock_mono_us();
	enum rc rc;

	*out = look_up(c, key, &changes);
	if (*out != NULL) {
		free(key);
		return RC_OK;
	}
	rc = db_query(db, sql, n, params, out, err);
	if (rc == RC_OK)
		keep(c, key, *out, asked_us, changes);
	else
		free(key);
	return rc;
}
