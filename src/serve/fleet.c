#include "serve/fleet.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "serve/settings.h"

struct known {
	PGresult *row; /* NULL: none yet, or away */
	char *why;
	int64_t at_us; /* 0: nothing is known */
};

struct fleet {
	pthread_mutex_t lock; /* of what follows; held for no longer than a copy takes */
	size_t n;
	struct known known[];
};

struct fleet *
fleet_create(size_t databases)
{
	struct fleet *f = xcalloc(1, sizeof *f + databases * sizeof *f->known);

	f->n = databases;
	PTHREAD_OK(pthread_mutex_init(&f->lock, NULL));
	return f;
}

void
fleet_destroy(struct fleet **f)
{
	for (size_t i = 0; i < (*f)->n; i++) {
		PQclear((*f)->known[i].row);
		free((*f)->known[i].why);
	}
	PTHREAD_OK(pthread_mutex_destroy(&(*f)->lock));
	free(*f);
	*f = NULL;
}

void
fleet_note(struct fleet *f, size_t database, const PGresult *r, const char *why)
{
	struct known *k = &f->known[database];
	PGresult *copy = r == NULL ? NULL : PQcopyResult(r, PG_COPYRES_ATTRS | PG_COPYRES_TUPLES);
	char *text = why == NULL ? NULL : xstrdup(why);

	WITH_LOCK(&f->lock);
	PQclear(k->row);
	free(k->why);
	*k = (struct known){copy, text, clock_mono_us()};
}

/* The columns of pgrab.overview that fit a table. */
static const char *const columns[] = {"nodes_up", "running", "due", "late", "oldest_late", "parked",
    "failing", "overdue", "waiting", "runs_1h", "failed_1h"};
#define COLUMNS (sizeof columns / sizeof *columns)
#define BEFORE  3 /* database, state, seconds */
#define BEHIND  2 /* error, path */

static void
put_known(PGresult *all, int row, const struct known *k)
{
	db_set(all, row, 1, k->row != NULL ? "up" : k->at_us == 0 ? "asking" : "away");
	db_set(all, row, 2, k->at_us == 0 ? NULL : NUMBER((clock_mono_us() - k->at_us) / US_PER_S));
	for (size_t i = 0; i < COLUMNS; i++) {
		int col = k->row == NULL ? -1 : PQfnumber(k->row, columns[i]);

		db_set(all, row, BEFORE + (int)i,
		    col < 0 || PQgetisnull(k->row, 0, col) ? NULL : PQgetvalue(k->row, 0, col));
	}
	db_set(all, row, BEFORE + (int)COLUMNS, k->why);
}

PGresult *
fleet_rows(struct fleet *f, const struct serve_settings *set)
{
	PGresAttDesc desc[BEFORE + COLUMNS + BEHIND] = {
	    {.name = (char *)"database"}, {.name = (char *)"state"}, {.name = (char *)"seconds"}};
	PGresult *all = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	char path[100];

	for (size_t i = 0; i < COLUMNS; i++)
		desc[BEFORE + i].name = (char *)columns[i];
	desc[BEFORE + COLUMNS].name = (char *)"error";
	desc[BEFORE + COLUMNS + 1].name = (char *)"path";
	if (all == NULL || !PQsetResultAttrs(all, BEFORE + COLUMNS + BEHIND, desc))
		abort();
	WITH_LOCK(&f->lock);
	for (size_t i = 0; i < f->n; i++) {
		db_set(all, (int)i, 0, serve_database_name(set, i));
		snprintf(path, sizeof path, "%s%s", i == 0 ? "" : "/db/",
		    i == 0 ? "" : serve_database_name(set, i));
		db_set(all, (int)i, BEFORE + (int)COLUMNS + 1, path);
		put_known(all, (int)i, &f->known[i]);
	}
	return all;
}
