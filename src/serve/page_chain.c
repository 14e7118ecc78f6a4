/* The page of one chain: a run of it, which decided how long it took, and its other runs. */
#include <stdlib.h>
#include <string.h>

#include "serve/page.h"

#define LINKS_SHOWN 100

/* The list to choose from. */
static void
put_runs(struct call *c, const PGresult *runs, const char *id, const char *run)
{
	buf_adds(&c->out, "<nav class=\"zoom\" aria-label=\"Runs\">");
	for (int row = 0; row < PQntuples(runs); row++) {
		const char *at = *db_field(runs, row, "fire_at") != '\0' ? db_field(runs, row, "fire_at")
									 : db_field(runs, row, "started_at");

		buf_addf(&c->out, "<a href=\"/chains/%s?run=%s\"%s>%.19s %s</a>\n", id,
		    db_field(runs, row, "run"),
		    strcmp(db_field(runs, row, "run"), run) == 0 ? " aria-current=\"true\"" : "", at,
		    db_field(runs, row, "result"));
	}
	buf_adds(&c->out, "</nav>\n");
}

/* On the critical path, or of levels [span[0], span[1]]? */
static bool
is_wanted(const PGresult *links, int row, const int *span)
{
	int depth = (int)db_field_double(links, row, "depth");

	return span == NULL ? db_field_bool(links, row, "critical") : depth >= span[0] && depth <= span[1];
}

/* These rows as a table: what is copied keeps the columns. */
static PGresult *
links_of(const PGresult *links, const int *span)
{
	PGresult *some = PQcopyResult(links, PG_COPYRES_ATTRS);

	for (int row = 0, to = 0; some != NULL && row < PQntuples(links) && to < LINKS_SHOWN; row++) {
		if (!is_wanted(links, row, span))
			continue;
		for (int col = 0; col < PQnfields(links); col++)
			db_set(some, to, col, PQgetisnull(links, row, col) ? NULL : db_text(links, row, col));
		to++;
	}
	return some;
}

static void
put_some(struct call *c, const PGresult *links, const int *span)
{
	AUTO_CLEAR PGresult *some = links_of(links, span);

	page_table(c, some, some == NULL ? 0 : PQntuples(some), "None.", false);
	if (some != NULL && PQntuples(some) == LINKS_SHOWN)
		buf_adds(&c->out, "<p class=\"dim\">The first hundred.</p>\n");
}

static int
level(const struct call *c, const char *name, int fallback)
{
	const char *given = call_query(c, name);

	return given == NULL ? fallback : (int)strtol(given, NULL, 10);
}

static void
put_page(struct call *c, const char *id, const PGresult *runs, const PGresult *links, const char *run)
{
	const int span[] = {level(c, "from", 0), level(c, "until", 1000000)};

	AUTO_BUF struct buf title = {0};

	buf_addf(&title, "Chain: %s", PQntuples(links) > 0 ? db_field(links, 0, "name") : id);
	page_begin(c, buf_str(&title), true);
	put_runs(c, runs, id, run);
	if (PQntuples(links) == 0) {
		buf_adds(&c->out,
		    "<p class=\"dim\">There is no such run of a chain, or it has more than 5000 links: "
		    "<code>pgrab chains --run</code> draws it.</p>\n");
	} else {
		page_graph(c, links, id, run);
		page_heading(c, "The critical path: what decided when it ended");
		put_some(c, links, NULL);
		buf_adds(&c->out, "<h2 id=\"links\">Links</h2>\n");
		put_some(c, links, span);
	}
	page_section(c, "Runs", runs, "It has not run yet.");
	page_end(c);
}

void
page_chain(struct call *c, struct db *db)
{
	const char *name[] = {c->part[0]}, *asked = call_query(c, "run");
	AUTO_CLEAR PGresult *id = NULL, *runs = NULL, *links = NULL;

	if (call_ask(c, db, "cli_id", 1, name, &id)) {
		const char *task[] = {db_text(id, 0, 0), "20"};

		if (call_ask_shared(c, db, "serve_chain_runs", 2, task, &runs)) {
			const char *run =
			    asked != NULL || PQntuples(runs) == 0 ? asked : db_field(runs, 0, "run");
			const char *which[] = {task[0], run, "5000"};

			if (!call_ask_shared(c, db, "serve_chain_page", 3, which, &links))
				;
			else if (PQntuples(runs) + PQntuples(links) == 0)
				call_problem(c, 404, "there is no such chain", "/chains lists them.");
			else
				put_page(c, task[0], runs, links, run == NULL ? "" : run);
		}
	}
}
