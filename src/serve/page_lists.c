/* The pages that list tasks and runs. */
#include <stdlib.h>

#include "base/alloc.h"
#include "core/run.h"
#include "db/report.h"
#include "serve/escape.h"
#include "serve/page.h"

#define PAGE_ROWS 50
#define LATE_MAX  "3000" /* of which pages are made */

/* What a list can be searched by: words to choose from; NULL: anything. */
struct filter {
	const char *name, *label;
	const char *const *values;
};

static void
put_filter(struct call *c, const struct filter *f)
{
	const char *given = call_query(c, f->name);

	if (f->values == NULL) {
		html_addf(&c->out, "<label>%s <input name=\"%s\" value=\"%s\"></label>\n", f->label, f->name,
		    given == NULL ? "" : given);
		return;
	}
	buf_addf(&c->out, "<label>%s <select name=\"%s\">", f->label, f->name);
	page_option(&c->out, "", "any", given);
	for (const char *const *v = f->values; *v != NULL; v++)
		page_option(&c->out, *v, *v, given);
	buf_adds(&c->out, "</select></label>\n");
}

/* A word that there is not would find nothing, which looks like good news. */
static bool
check_filters(struct call *c, const struct filter *filters)
{
	for (const struct filter *f = filters; f->name != NULL; f++) {
		if (f->values != NULL && !call_is_word(c, f->name, f->values))
			return false;
	}
	return true;
}

/* The head of a list, with a form to search it; ended by one without a name. */
static void
begin_list(struct call *c, const char *title, const struct filter *filters)
{
	page_begin(c, title, true);
	buf_adds(&c->out, "<form class=\"filter\" role=\"search\">");
	for (const struct filter *f = filters; f->name != NULL; f++)
		put_filter(c, f);
	page_keep_zone(c);
	buf_adds(&c->out, "<button>Search</button></form>\n");
}

static int
rows_shown(struct call *c, const PGresult *r)
{
	int n = PQntuples(r) - call_search_cut(c, r);

	return n > PAGE_ROWS ? PAGE_ROWS : n;
}

/* One row more than is shown means that there is another page: the same query, with another cursor. */
static void
put_next_page(struct call *c, const PGresult *r)
{
	int last = c->searched != NULL ? PQntuples(r) - 1 : PAGE_ROWS - 1;
	AUTO_FREE char *next = NULL;

	if (c->searched == NULL && PQntuples(r) <= PAGE_ROWS)
		return;
	buf_adds(&c->out, "<p>");
	if (c->searched != NULL)
		buf_addf(&c->out, "Searched %s, and no further: the history goes on. ", c->searched);
	next = call_next(c, db_text(r, last, PQfnumber(r, "cursor")));
	html_addf(&c->out, "<a rel=\"next\" href=\"%s\">%s</a></p>\n", next,
	    c->searched != NULL ? "Search on" : "Older");
}

/* A search matches anywhere in the name. */
static char *
pattern_of(const char *text)
{
	return text == NULL ? NULL : xasprintf("%%%s%%", text);
}

static void
put_bulk_actions(struct call *c)
{
	static const char *const actions[] = {
	    "pause", "resume", "run-now", "retry", "cancel", "skip-next", "delete", NULL};

	buf_adds(&c->out, "<p class=\"actions\">With those chosen: ");
	for (const char *const *a = actions; *a != NULL; a++)
		page_button(c, "action", *a, *a);
	buf_adds(&c->out, "</p>");
	page_come_back(c);
}

void
page_tasks(struct call *c, struct db *db)
{
	static const char *const statuses[] = {
	    "waiting", "scheduled", "claimed", "running", "parked", "done", "cancelled", "skipped", NULL};
	static const struct filter filters[] = {{"q", "Name", NULL}, {"status", "Status", statuses},
	    {"kind", "Kind", NULL}, {"node", "Node", NULL}, {"source", "Source", NULL}, {NULL, NULL, NULL}};
	AUTO_FREE char *like = pattern_of(call_query(c, "q"));
	const char *params[] = {call_query(c, "status"), call_query(c, "kind"), like, NULL,
	    call_query(c, "node"), call_query(c, "source"), call_query(c, "cursor"), "51"};
	AUTO_CLEAR PGresult *r = NULL;

	if (check_filters(c, filters) && call_ask_shared(c, db, "serve_tasks_page", 8, params, &r)) {
		begin_list(c, "Tasks", filters);
		page_form(c, "/tasks", "bulk");
		page_table(c, r, rows_shown(c, r), SAYS_NO_TASKS, true);
		if (PQntuples(r) > 0)
			put_bulk_actions(c);
		buf_adds(&c->out, "</form>\n");
		put_next_page(c, r);
		page_end(c);
	}
}

/* Of the one live task of that name all runs are found by its id, however long the history is.  only: NULL
 * if it is not one. */
static bool
ask_named(struct call *c, struct db *db, PGresult **r, const char **only)
{
	const char *name[] = {call_query(c, "q")};

	if (name[0] == NULL || call_query(c, "task") != NULL || call_query(c, "names") != NULL)
		return true;
	if (!call_ask_shared(c, db, "serve_named", 1, name, r))
		return false;
	*only = PQntuples(*r) == 1 ? db_text(*r, 0, 0) : NULL;
	return true;
}

static void
put_only_named(struct call *c, const char *id)
{
	if (id == NULL)
		return;
	html_addf(&c->out,
	    "<p>All runs of <a href=\"/tasks/%s\">the task of that name</a>. "
	    "<a href=\"%s&amp;names=all\">Search other names that contain it, too</a></p>\n",
	    id, c->uri);
}

void
page_history(struct call *c, struct db *db)
{
	static const struct filter filters[] = {{"q", "Name", NULL}, {"task", "Task", NULL},
	    {"outcome", "Outcome", run_outcomes}, {"node", "Node", NULL},
	    {"started_since", "Started since", NULL}, {"started_until", "until", NULL}, {NULL, NULL, NULL}};
	AUTO_CLEAR PGresult *r = NULL, *named = NULL;
	AUTO_FREE char *like = pattern_of(call_query(c, "q"));
	char since[MOMENT_MAX], until[MOMENT_MAX];
	const char *only = NULL;
	const char *params[] = {call_query(c, "task"), call_query(c, "outcome"), like, NULL,
	    call_query(c, "node"), NULL, NULL, NULL, call_moment(c, "started_since", since),
	    call_moment(c, "started_until", until), call_query(c, "cursor"), "51"};

	if (!check_filters(c, filters) || !ask_named(c, db, &named, &only))
		return;
	if (only != NULL) {
		params[0] = only;
		params[2] = NULL;
	}
	if (call_ask_shared(c, db, "serve_runs_page", 12, params, &r)) {
		int rows = rows_shown(c, r);

		begin_list(c, "History", filters);
		put_only_named(c, only);
		page_table(c, r, rows,
		    c->searched == NULL ? SAYS_NO_RUNS : "No such runs in the part that was searched.",
		    false);
		put_next_page(c, r);
		page_end(c);
	}
}

void
page_late(struct call *c, struct db *db)
{
	long behind = call_query(c, "cursor") == NULL ? 0 : strtol(call_query(c, "cursor"), NULL, 10);
	const char *params[] = {LATE_MAX, NUMBER(behind), "51"};
	AUTO_CLEAR PGresult *r = NULL;

	if (call_ask_shared(c, db, "serve_late", 3, params, &r)) {
		page_begin(c, "Late tasks, the oldest first", true);
		page_table(c, r, rows_shown(c, r), "No task is late.", false);
		put_next_page(c, r);
		page_end(c);
	}
}
