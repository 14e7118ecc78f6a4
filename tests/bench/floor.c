/*
 * The floor under the drain benchmark: the node's own statements (look, claim, finish; the texts that are
 * built into pgrab) in a plain loop on blocking connections, and nothing else: no threads that hand work to
 * each other, no heaps, no lease, no doorbell. What a node loses against this program is the price of being a
 * scheduler.
 *
 * Each connection has a thread and its own share of the shards, so no two of them want the same row.  It ends
 * when its shards hold nothing that is due.  Any error ends the process: a benchmark with errors has no
 * result.
 */
#include <getopt.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/pg.h"
#include "db/sql.h"

#define SHARDS    1024
#define NODE_ID   "0"
#define NODE_NAME "floor"
#define KINDS     "{noop}"
#define ALL_DUE   "9000000000000000"     /* us since 1970 */
#define OWNERS    "{contender,postgres}" /* whoever inserted them */
#define SLICE     "{128}"                /* rows of a shard in one look */
#define NO_MARK   INT64_MIN

struct row {
	int64_t id, version;
};

struct lane {
	pthread_t thread;
	const char *dsn;
	unsigned index, count, batch;
	/* owned by the thread */
	PGconn *conn;
	char incarnation[24], lane[24], key[48];
	unsigned turn; /* the look begins with this one of our shards */
	int64_t mark[SHARDS];
	struct row *rows;
	int n_rows;
	int64_t done, looks, claims;
};

static PGresult *
query(struct lane *l, const char *name, int n_params, const char *const *params)
{
	PGresult *res = PQexecParams(l->conn, sql_text(name), n_params, NULL, params, NULL, NULL, 0);

	if (PQresultStatus(res) != PGRES_TUPLES_OK) {
		fprintf(stderr, "floor: %s: %s", name, PQerrorMessage(l->conn));
		exit(1);
	}
	return res;
}

static int
by_id(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static void
remember(struct lane *l, PGresult *res)
{
	for (int i = 0; i < l->n_rows; i++) {
		unsigned shard = (unsigned)db_int64(res, i, 2);

		l->rows[i] = (struct row){db_int64(res, i, 0), db_int64(res, i, 1)};
		if (i + 1 < l->n_rows && strcmp(db_text(res, i, 2), db_text(res, i + 1, 2)) == 0)
			continue;
		l->mark[shard] = db_int64(res, i, 6);
		l->turn = shard / l->count;
	}
	qsort(l->rows, (size_t)l->n_rows, sizeof *l->rows, by_id);
}

static void
look(struct lane *l)
{
	struct pgarray shards = {0}, marks = {0};
	unsigned own = (SHARDS - l->index + l->count - 1) / l->count;
	char limit[24], last[24];

	for (unsigned i = 0; i < own; i++) {
		unsigned shard = (l->turn + i) % own * l->count + l->index;

		pgarray_int(&shards, shard);
		if (l->mark[shard] == NO_MARK)
			pgarray_null(&marks);
		else
			pgarray_int(&marks, l->mark[shard]);
	}
	snprintf(limit, sizeof limit, "{%u}", l->batch);
	snprintf(last, sizeof last, "{%u}", own);

	const char *params[] = {l->lane, "{1}", last, pgarray_str(&shards), pgarray_str(&marks), "{0}", KINDS,
	    "{}", "t", limit, OWNERS, "{}", SLICE, l->key, "t"};
	PGresult *res = query(l, "look", 15, params);

	l->n_rows = PQntuples(res);
	remember(l, res);
	l->looks++;
	PQclear(res);
	pgarray_fini(&shards);
	pgarray_fini(&marks);
}

/* Leaves in rows what was won, with its new version. */
static void
claim(struct lane *l)
{
	struct pgarray ids = {0}, versions = {0};
	char number[24], over[24];

	for (int i = 0; i < l->n_rows; i++) {
		pgarray_int(&ids, l->rows[i].id);
		pgarray_int(&versions, l->rows[i].version);
	}
	/* The runs of the claim before this one have ended. */
	snprintf(over, sizeof over, "{%" PRId64 "}", l->claims);
	snprintf(number, sizeof number, "%" PRId64, ++l->claims);

	const char *params[] = {
	    pgarray_str(&ids), pgarray_str(&versions), NODE_ID, l->incarnation, KINDS, number, over, ALL_DUE};
	PGresult *res = query(l, "claim", 8, params);

	l->n_rows = PQntuples(res);
	for (int i = 0; i < l->n_rows; i++)
		l->rows[i] = (struct row){db_int64(res, i, 0), db_int64(res, i, 1)};
	PQclear(res);
	pgarray_fini(&ids);
	pgarray_fini(&versions);
}

static void
finish(struct lane *l, int64_t begun_us)
{
	enum { ID, VERSION, INCARNATION, BEGUN, ENDED, EXIT, OUTPUT, CUT, OUTCOME, ERROR, RETRY, ARRAYS };
	struct pgarray a[ARRAYS] = {0};
	const char *params[ARRAYS + 3];
	int64_t ago_us = clock_mono_us() - begun_us;

	for (int i = 0; i < l->n_rows; i++) {
		pgarray_int(&a[ID], l->rows[i].id);
		pgarray_int(&a[VERSION], l->rows[i].version);
		pgarray_int(&a[INCARNATION], strtoll(l->incarnation, NULL, 10));
		pgarray_int(&a[BEGUN], ago_us);
		pgarray_int(&a[ENDED], ago_us);
		pgarray_null(&a[EXIT]);
		pgarray_null(&a[OUTPUT]);
		pgarray_text(&a[CUT], "f");
		pgarray_text(&a[OUTCOME], "succeeded");
		pgarray_null(&a[ERROR]);
		pgarray_null(&a[RETRY]);
	}
	for (int i = 0; i < OUTCOME; i++)
		params[i] = pgarray_str(&a[i]);
	params[OUTCOME] = NODE_ID;
	params[OUTCOME + 1] = NODE_NAME;
	for (int i = OUTCOME; i < ARRAYS; i++)
		params[i + 2] = pgarray_str(&a[i]);
	params[ARRAYS + 2] = NULL; /* nobody knows what a noop took */

	PGresult *res = query(l, "finish", ARRAYS + 3, params);

	if (PQntuples(res) != l->n_rows) {
		fprintf(stderr, "floor: %d of %d runs could be finished\n", PQntuples(res), l->n_rows);
		exit(1);
	}
	l->done += l->n_rows;
	PQclear(res);
	for (int i = 0; i < ARRAYS; i++)
		pgarray_fini(&a[i]);
}

static void
forget_marks(struct lane *l)
{
	for (int i = 0; i < SHARDS; i++)
		l->mark[i] = NO_MARK;
}

/* All tasks stand in one lane; without any there is none, and nothing to do. */
static bool
find_lane(struct lane *l)
{
	const char *params[] = {KINDS, "{}", OWNERS, "{}", "1", "{}", "1", NULL};
	PGresult *res = query(l, "lanes", 8, params);
	bool found = PQntuples(res) > 0;

	if (found) {
		snprintf(l->lane, sizeof l->lane, "{%s}", db_text(res, 0, 0));
		snprintf(l->key, sizeof l->key, "{\"\\%s\"}", db_text(res, 0, 1)); /* a text like \x17 */
	}
	PQclear(res);
	return found;
}

/* Like the loader: from the low-water marks, and only when nothing is left there once more from the
 * beginning. */
static void
drain(struct lane *l)
{
	for (;;) {
		look(l);
		if (l->n_rows == 0) {
			forget_marks(l);
			look(l);
			if (l->n_rows == 0)
				return;
		}
		claim(l);
		finish(l, clock_mono_us());
	}
}

static void *
lane_main(void *arg)
{
	struct lane *l = arg;

	l->conn = PQconnectdb(l->dsn);
	if (PQstatus(l->conn) != CONNECTION_OK) {
		fprintf(stderr, "floor: %s", PQerrorMessage(l->conn));
		exit(1);
	}
	/* As the node's connections are. */
	PQclear(PQexec(
	    l->conn, "set search_path = pg_catalog, pg_temp; set timezone = 'UTC'; set datestyle = 'ISO'"));
	/* Another one each time: the last claim of a run before is still written down as held. */
	snprintf(l->incarnation, sizeof l->incarnation, "%" PRId64, clock_mono_us() / 64 * 64 + l->index);
	l->rows = xcalloc(l->batch, sizeof *l->rows);
	forget_marks(l);
	if (find_lane(l))
		drain(l);
	free(l->rows);
	PQfinish(l->conn);
	return NULL;
}

static unsigned
number_of(const char *text, unsigned max)
{
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (*text == '\0' || *end != '\0' || n < 1 || n > max) {
		fprintf(stderr, "floor: '%s' is not a number from 1 to %u\n", text, max);
		exit(2);
	}
	return (unsigned)n;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"dsn", required_argument, NULL, 'd'},
	    {"connections", required_argument, NULL, 'n'}, {"batch", required_argument, NULL, 'b'},
	    {NULL, 0, NULL, 0}};
	const char *dsn = "";
	unsigned count = 2, batch = 1000;
	int64_t done = 0, looks = 0;
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'd': dsn = optarg; break;
		case 'n': count = number_of(optarg, 64); break;
		case 'b': batch = number_of(optarg, 100000); break;
		default:
			fprintf(stderr, "usage: floor [--dsn DSN] [--connections N] [--batch N]\n");
			return 2;
		}
	}

	/* It ends by itself; whoever counted the last task may be faster. */
	signal(SIGTERM, SIG_IGN);
	struct lane *lanes = xcalloc(count, sizeof *lanes);

	for (unsigned i = 0; i < count; i++) {
		lanes[i].dsn = dsn;
		lanes[i].index = i;
		lanes[i].count = count;
		lanes[i].batch = batch;
		if (pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]) != 0)
			abort();
	}
	for (unsigned i = 0; i < count; i++) {
		pthread_join(lanes[i].thread, NULL);
		done += lanes[i].done;
		looks += lanes[i].looks;
	}
	printf("done=%" PRId64 " looks=%" PRId64 "\n", done, looks);
	free(lanes);
	return 0;
}
