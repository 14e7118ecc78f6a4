#include "cli/all.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "cli/table.h"
#include "db/report.h"
#include "db/schema.h"
#include "serve/settings.h"

#define PATIENCE_US (5 * US_PER_S)  /* with each */
#define AGAIN_US    (30 * US_PER_S) /* one that was away is not asked again before */

/* One of them, and what it was last asked and said: its thread's while that runs. */
struct one {
	const char *name;
	struct db *db;
	const char *sql;
	int n_params;
	const char *const *params;
	bool json;
	int64_t again_us; /* 0: it was there */
	PGresult *rows;
	struct err err;
};

struct all {
	struct serve_settings set;
	size_t n;
	struct one *one;
	struct buf away;
};

struct all *
all_open(struct cli *c, const char *file)
{
	char *argv[] = {(char *)"serve", (char *)"--config", (char *)file, NULL};
	struct all *a = xcalloc(1, sizeof *a);
	bool help = false;

	if (serve_settings_load(3, argv, &a->set, &help, &c->err) != RC_OK ||
	    (c->common->schema == NULL && schema_use(a->set.schema, &c->err) != RC_OK)) {
		all_close(&a);
		return NULL;
	}
	a->n = a->set.n_databases + 1;
	a->one = xcalloc(a->n, sizeof *a->one);
	for (size_t i = 0; i < a->n; i++) {
		AUTO_FREE char *login = serve_login(&a->set, i, -1);
		char app[64];

		snprintf(app, sizeof app, "pgrab %s", c->cmd->name);
		a->one[i].name = serve_database_name(&a->set, i);
		a->one[i].db = db_create(login, app, PATIENCE_US);
	}
	return a;
}

void
all_close(struct all **a)
{
	for (size_t i = 0; i < (*a)->n; i++)
		db_destroy(&(*a)->one[i].db);
	free((*a)->one);
	buf_fini(&(*a)->away);
	serve_settings_fini(&(*a)->set);
	free(*a);
	*a = NULL;
}

static void *
ask_one(void *arg)
{
	struct one *o = arg;
	enum rc rc = report_ask(
	    o->db, o->json ? REPORT_OBJECTS : REPORT_ROWS, o->sql, o->n_params, o->params, &o->rows, &o->err);

	o->again_us = rc == RC_OK ? 0 : clock_mono_us() + AGAIN_US;
	return NULL;
}

/* The columns of `like`, behind the name of the database. */
static PGresult *
empty_like(const PGresult *like, bool json)
{
	int n = PQnfields(like) + (json ? 0 : 1);
	AUTO_FREE PGresAttDesc *desc = xcalloc((size_t)n, sizeof *desc);
	PGresult *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);

	for (int col = 0; col < n; col++) {
		int from = json ? col : col - 1;

		desc[col].name = from < 0 ? (char *)"database" : PQfname(like, from);
		desc[col].typid = from < 0 ? 25 : PQftype(like, from); /* text */
	}
	if (r == NULL || !PQsetResultAttrs(r, n, desc))
		abort();
	return r;
}

static void
add_object(PGresult *all, const struct one *o, int row)
{
	AUTO_BUF struct buf object = {0};

	buf_adds(&object, "{\"database\":");
	buf_json(&object, o->name);
	buf_addf(&object, ",%s", db_text(o->rows, row, 0) + 1);
	db_set(all, PQntuples(all), 0, buf_str(&object));
}

/* By name: a database of another version may have more columns, or fewer. */
static void
add_row(PGresult *all, const struct one *o, int row)
{
	int to = PQntuples(all);

	db_set(all, to, 0, o->name);
	for (int col = 1; col < PQnfields(all); col++) {
		int from = PQfnumber(o->rows, PQfname(all, col));

		db_set(all, to, col,
		    from < 0 || PQgetisnull(o->rows, row, from) ? NULL : PQgetvalue(o->rows, row, from));
	}
}

static PGresult *
gather(struct all *a, bool json)
{
	PGresult *all = NULL;

	buf_reset(&a->away);
	for (size_t i = 0; i < a->n; i++) {
		struct one *o = &a->one[i];

		if (o->again_us != 0)
			buf_addf(&a->away, "%s%s: %s", a->away.len > 0 ? "; " : "", o->name, o->err.text);
		if (o->rows != NULL && all == NULL)
			all = empty_like(o->rows, json);
		for (int row = 0; o->rows != NULL && row < PQntuples(o->rows); row++)
			(json ? add_object : add_row)(all, o, row);
		PQclear(o->rows);
		o->rows = NULL;
	}
	return all;
}

PGresult *
all_ask(struct all *a, const char *sql, int n_params, const char *const *params, bool json)
{
	AUTO_FREE pthread_t *threads = xcalloc(a->n, sizeof *threads);
	AUTO_FREE bool *asked = xcalloc(a->n, sizeof *asked);

	for (size_t i = 0; i < a->n; i++) {
		struct one *o = &a->one[i];

		asked[i] = clock_mono_us() >= o->again_us;
		if (!asked[i])
			continue;
		o->sql = sql;
		o->n_params = n_params;
		o->params = params;
		o->json = json;
		thread_start(&threads[i], "all", ask_one, o);
	}
	for (size_t i = 0; i < a->n; i++) {
		if (asked[i])
			thread_join(threads[i]);
	}
	return gather(a, json);
}

const char *
all_away(const struct all *a)
{
	return a->away.len == 0 ? "" : a->away.data;
}

void
all_array(struct buf *out, const PGresult *r)
{
	buf_addc(out, '[');
	for (int row = 0; r != NULL && row < PQntuples(r); row++)
		buf_addf(out, "%s%s", row > 0 ? ", \n " : "", db_text(r, row, 0));
	buf_addc(out, ']');
}

static void
print(const PGresult *r, bool json, const char *nothing)
{
	struct screen screen = screen_look();
	AUTO_BUF struct buf out = {0};

	if (json)
		all_array(&out, r);
	else if (PQntuples(r) == 0)
		buf_addf(&out, "%s\n", nothing);
	else
		table_print(&out, r, &screen);
	if (json)
		text_put_json(buf_str(&out));
	else
		text_put(&out);
}

int
all_list(struct cli *c, const char *file, const char *sql, int n_params, const char *const *params,
    const char *nothing)
{
	struct all *a = all_open(c, file);
	AUTO_CLEAR PGresult *r = NULL;
	int code = CLI_DONE;

	if (a == NULL)
		return cli_usage(c->cmd, c->err.text);
	r = all_ask(a, sql, n_params, params, c->common->json);
	if (r != NULL)
		print(r, c->common->json, nothing);
	if (*all_away(a) != '\0')
		code = cli_failed(c, "%s", all_away(a));
	all_close(&a);
	return code;
}
