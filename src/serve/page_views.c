/* The pages that list something, and the table of all pages. */
#include <string.h>

#include "db/report.h"
#include "db/schema.h"
#include "serve/escape.h"
#include "serve/page.h"
#include "serve/route.h"

#define ROWS_MAX 200
#define ONE_MORE "201" /* than are shown, to know that there are more */
#define PARTS    3

/* A page of tables.  arg of its route. */
struct list {
	const char *title;
	struct part {
		const char *sql, *heading;                              /* heading: but of the first */
		const char *nothing;                                    /* NULL: then it is left out */
		const char *note;                                       /* below it */
		void (*form)(struct call *c, const PGresult *r, int n); /* below that, of each row */
		int n;
		const char *params[1];
		const char *all; /* what lists more than are shown, or NULL */
	} part[PARTS];
	void (*form)(struct call *c); /* at the end */
};

void
page_option(struct buf *o, const char *value, const char *label, const char *chosen)
{
	buf_addf(o, "<option value=\"%s\"%s>%s</option>", value,
	    chosen != NULL && strcmp(chosen, value) == 0 ? " selected" : "", label);
}

static void
put_node_form(struct call *c, const PGresult *r, int row)
{
	const char *name = db_field(r, row, "name");
	AUTO_BUF struct buf path = {0};

	buf_adds(&path, "/nodes/");
	html_url(&path, name);
	page_form(c, buf_str(&path), "inline");
	html_addf(&c->out, "%s ", name);
	page_button(c, "action", "drain", "Drain");
	page_button(c, "action", "undrain", "Undrain");
	buf_adds(&c->out, "</form>\n");
}

static void
put_limit_form(struct call *c)
{
	page_heading(c, "Set a limit");
	page_form(c, "/limits", "filter");
	buf_adds(&c->out,
	    "<label>Key <input name=\"key\" required></label>\n"
	    "<label>Running at once <input name=\"max_running\" inputmode=\"numeric\"></label>\n"
	    "<label>Starts per second <input name=\"per_second\" inputmode=\"decimal\"></label>\n"
	    "<label>Broken after <input name=\"break_after\" inputmode=\"numeric\""
	    " placeholder=\"failures in a row\"></label>\n"
	    "<label>For <input name=\"break_for\" placeholder=\"1 min\"></label>\n");
	page_button(c, "action", "set", "Set");
	page_button(c, "action", "delete", "Delete");
	buf_adds(&c->out, "</form>\n");
}

/* One that is on, or comes again. */
static void
put_end_form(struct call *c, const PGresult *r, int row)
{
	const char *name = db_field(r, row, "name");
	AUTO_BUF struct buf label = {0};

	if (strcmp(db_field(r, row, "state"), "over") == 0)
		return;
	page_form(c, "/blackouts", "inline");
	page_hidden(c, "name", name);
	buf_addf(&label, "End %s", name);
	page_button(c, "action", "end", buf_str(&label));
	buf_adds(&c->out, "</form>\n");
}

static void
put_blackout_form(struct call *c)
{
	page_heading(c, "Add a blackout");
	page_form(c, "/blackouts", "filter");
	buf_adds(&c->out,
	    "<label>Name <input name=\"name\" placeholder=\"empty: the time\"></label>\n"
	    "<label>For how long <input name=\"lasts\" required placeholder=\"2h, 1 day 6 hours\"></label>\n"
	    "<label>From <input name=\"from\" placeholder=\"empty: now; 2026-11-28 22:00 "
	    "Europe/Berlin\"></label>\n"
	    "<label>Or by a schedule <input name=\"schedule\" placeholder=\"0 22 * * SAT\"></label>\n"
	    "<label>in time zone <input name=\"timezone\" placeholder=\"UTC, Europe/Berlin\"></label>\n"
	    "<label>Only tasks like <input name=\"task_like\" placeholder=\"etl-%; empty: all\"></label>\n"
	    "<label>What becomes due <select name=\"do\">");
	page_option(&c->out, "hold", "is held until its end", NULL);
	page_option(&c->out, "skip", "is skipped", NULL);
	buf_adds(&c->out, "</select></label>\n<label>Why <input name=\"note\" placeholder=\"move to new "
			  "disks\"></label>\n");
	page_button(c, "action", "add", "Add");
	buf_adds(&c->out, "</form>\n");
}

static void
put_part(struct call *c, const struct part *p, const PGresult *r)
{
	int rows = PQntuples(r), shown = rows > ROWS_MAX && p->params[0] != NULL ? ROWS_MAX : rows;

	if (rows == 0 && p->nothing == NULL)
		return;
	if (p->heading != NULL)
		page_heading(c, p->heading);
	page_table(c, r, shown, p->nothing, false);
	if (shown < rows)
		buf_addf(&c->out, "<p class=\"dim\">The first 200%s.</p>\n", p->all == NULL ? "" : p->all);
	if (p->note != NULL)
		buf_addf(&c->out, "<p class=\"dim\">%s</p>\n", p->note);
	for (int row = 0; p->form != NULL && row < rows && row < ROWS_MAX; row++)
		p->form(c, r, row);
}

static void
list(struct call *c, struct db *db)
{
	const struct list *l = c->route->arg;
	PGresult *r[PARTS] = {NULL};
	bool ok = true;

	for (int i = 0; ok && i < PARTS && l->part[i].sql != NULL; i++)
		ok = call_ask_shared(c, db, l->part[i].sql, l->part[i].n, l->part[i].params, &r[i]);
	if (ok) {
		page_begin(c, l->title, true);
		for (int i = 0; i < PARTS && r[i] != NULL; i++)
			put_part(c, &l->part[i], r[i]);
		if (l->form != NULL)
			l->form(c);
		page_end(c);
	}
	for (int i = 0; i < PARTS; i++)
		PQclear(r[i]);
}

static const struct list nodes = {
    "Nodes", {{"serve_nodes", NULL, SAYS_NO_NODES, .form = put_node_form},
		 {"serve_speed", "How quick they are", "Nothing ran within a day.",
		     "Of the last 2000 runs of a day. times usual: against the median of the same tasks "
		     "on all nodes; 2 takes twice as long."},
		 {"serve_lost", "Runs lost with a node, within a week"}}};

static const struct list chains = {
    "Chains", {{"serve_chains", NULL, SAYS_NO_CHAINS, .n = 1, .params = {ONE_MORE}},
		  {"cli_batches", "Batches", "No batch is open."}}};

static const struct list limits = {"Limits",
    {{"serve_limits", NULL, SAYS_NO_LIMITS, .n = 1, .params = {ONE_MORE},
	 .all = ": <code>pgrab limit</code> lists all"},
	{"serve_limit_users", "Who has the places, and who is first in line", "Nobody."}},
    put_limit_form};

static const struct list blackouts = {"Blackouts",
    {{"cli_blackouts", NULL, "There are no blackouts.", .form = put_end_form, .n = 1}}, put_blackout_form};

#define LIST(name, title, sql, nothing) \
	static const struct list name = {title, {{sql, NULL, nothing, .n = 1, .params = {ONE_MORE}}}}

LIST(failing, "Failing tasks", "serve_failing_page", "No task fails.");
LIST(began_late, "Began more than a minute late, of the last 10,000 runs of a day", "serve_began_late",
    "All of these began in time. The history of a task shows its older runs.");
LIST(overdue, "Overdue tasks", "serve_overdue", "No task is overdue.");
LIST(waiting, "Waits for a signal, an answer or members", "serve_waits", "Nothing waits for these.");

static void
new_task(struct call *c, struct db *db)
{
	static const struct {
		const char *name, *label, *hint;
	} fields[] = {{"name", "Name", "for people"}, {"key", "Key", "at most one live task per key"},
	    {"schedule", "Schedule", "30 2 * * *, @daily, @every 90s; empty: once"},
	    {"timezone", "Time zone", "UTC, Europe/Berlin"},
	    {"run_at", "Run at", "empty: now, or the first fire"}, {"timeout", "Timeout", "1 hour"},
	    {"max_attempts", "Attempts", "3"}, {"limit_key", "Limit", "key of a limit"},
	    {"source", "Source", "which file, team or tool"}};

	page_begin(c, "Add a task", false);
	page_form(c, "/new", "fields");
	buf_adds(&c->out, "<label>Kind <select name=\"kind\">");
	for (const char *kinds[] = {"sql", "shell", "exec", "http", "notify", "noop", NULL}, **k = kinds;
	     *k != NULL; k++)
		page_option(&c->out, *k, *k, NULL);
	buf_adds(&c->out,
	    "</select></label>\n<label>Command <textarea name=\"command\" rows=\"5\"></textarea></label>\n"
	    "<label>Arguments <textarea name=\"args\" rows=\"3\" placeholder=\"{&quot;cwd&quot;: "
	    "&quot;/tmp&quot;}\"></textarea></label>\n");
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
		buf_addf(&c->out, "<label>%s <input name=\"%s\" placeholder=\"%s\"></label>\n",
		    fields[i].label, fields[i].name, fields[i].hint);
	page_button(c, "action", "add", "Add");
	buf_adds(&c->out, "</form>\n");
	page_end(c);
}

static void
login(struct call *c, struct db *db)
{
	page_begin(c, "Log in", false);
	page_form(c, "/login", "fields");
	buf_adds(&c->out,
	    "<label>Token <input name=\"token\" type=\"password\" autocomplete=\"current-password\" "
	    "required></label>\n");
	page_button(c, "action", "login", "Log in");
	buf_addf(&c->out, "</form>\n<p class=\"dim\">select %s.token_add('who') makes a token.</p>\n",
	    schema_name());
	page_end(c);
}

const struct route page_routes[] = {
    {"GET", "/", page_overview},
    {"GET", "/tasks", page_tasks},
    {"POST", "/tasks", page_act_tasks},
    {"GET", "/tasks/*", page_task},
    {"GET", "/tasks/*/runs/*", page_run},
    {"GET", "/find", page_find},
    {"POST", "/tasks/*/signal", page_act_signal},
    {"POST", "/tasks/*/answer", page_act_answer},
    {"GET", "/history", page_history},
    {"GET", "/late", page_late},
    {"GET", "/began-late", list, &began_late},
    {"GET", "/failing", list, &failing},
    {"GET", "/overdue", list, &overdue},
    {"GET", "/waiting", list, &waiting},
    {"GET", "/timeline", page_timeline},
    {"GET", "/databases", page_fleet, NULL, ROUTE_KNOWN, ROUTE_FREE},
    {"GET", "/month", page_month},
    {"GET", "/chains", list, &chains},
    {"GET", "/chains/*", page_chain},
    {"GET", "/nodes", list, &nodes},
    {"POST", "/nodes/*", page_act_node},
    {"GET", "/limits", list, &limits},
    {"POST", "/limits", page_act_limit},
    {"GET", "/blackouts", list, &blackouts},
    {"POST", "/blackouts", page_act_blackout},
    {"POST", "/all", page_act_all},
    {"GET", "/new", new_task, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"POST", "/new", page_add},
    {"GET", "/login", login, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"POST", "/login", page_log_in, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"POST", "/logout", page_log_out, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"GET", "/static/page.css", asset_answer, "page.css", ROUTE_ANYBODY, ROUTE_HERE},
    {"GET", "/static/page.js", asset_answer, "page.js", ROUTE_ANYBODY, ROUTE_HERE},
    {NULL},
};
