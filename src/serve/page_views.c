/* The pages that list something, and the table of all pages. */
#include <string.h>

#include "db/report.h"
#include "db/schema.h"
#include "serve/escape.h"
#include "serve/page.h"
#include "serve/route.h"

#define LIMITS_MAX 200

void
page_option(struct buf *o, const char *value, const char *label, const char *chosen)
{
	buf_addf(o, "<option value=\"%s\"%s>%s</option>", value,
	    chosen != NULL && strcmp(chosen, value) == 0 ? " selected" : "", label);
}

static void
put_node_form(struct call *c, const char *name)
{
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
nodes(struct call *c, struct db *db)
{
	AUTO_CLEAR PGresult *r = NULL, *speed = NULL, *lost = NULL;

	if (page_ask_shared(c, db, "serve_nodes", 0, NULL, &r) &&
	    page_ask_shared(c, db, "serve_speed", 0, NULL, &speed) &&
	    page_ask_shared(c, db, "serve_lost", 0, NULL, &lost)) {
		page_begin(c, "Nodes", true);
		page_table(c, r, PQntuples(r), SAYS_NO_NODES, false);
		for (int row = 0; row < PQntuples(r) && row < 200; row++)
			put_node_form(c, db_text(r, row, 0));
		page_heading(c, "How quick they are");
		page_table(c, speed, PQntuples(speed), "Nothing ran within a day.", false);
		buf_adds(&c->out, "<p class=\"dim\">Of the last 2000 runs of a day. times usual: against the "
				  "median of the same tasks on all nodes; 2 takes twice as long.</p>\n");
		if (PQntuples(lost) > 0) {
			page_heading(c, "Runs lost with a node, within a week");
			page_table(c, lost, PQntuples(lost), "", false);
		}
		page_end(c);
	}
}

static void
chains(struct call *c, struct db *db)
{
	const char *params[] = {"200"};
	AUTO_CLEAR PGresult *r = NULL, *batches = NULL;

	if (page_ask_shared(c, db, "serve_chains", 1, params, &r) &&
	    page_ask_shared(c, db, "cli_batches", 0, NULL, &batches)) {
		page_begin(c, "Chains", true);
		page_table(c, r, PQntuples(r), SAYS_NO_CHAINS, false);
		page_heading(c, "Batches");
		page_table(c, batches, PQntuples(batches), "No batch is open.", false);
		page_end(c);
	}
}

static void
limits(struct call *c, struct db *db)
{
	AUTO_CLEAR PGresult *r = NULL, *users = NULL;

	if (page_ask_shared(c, db, "serve_limits", 0, NULL, &r) &&
	    page_ask_shared(c, db, "serve_limit_users", 0, NULL, &users)) {
		page_begin(c, "Limits", true);
		page_table(
		    c, r, PQntuples(r) < LIMITS_MAX ? PQntuples(r) : LIMITS_MAX, SAYS_NO_LIMITS, false);
		if (PQntuples(r) > LIMITS_MAX)
			buf_adds(&c->out, "<p class=\"dim\">The first 200: <code>pgrab limit</code> lists "
					  "all.</p>\n");
		page_heading(c, "Who has the places, and who is first in line");
		page_table(c, users, PQntuples(users), "Nobody.", false);
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
		page_end(c);
	}
}

/* One that is on, or comes again. */
static void
put_end_form(struct call *c, const char *name)
{
	AUTO_BUF struct buf label = {0};

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
blackouts(struct call *c, struct db *db)
{
	const char *params[] = {NULL};
	AUTO_CLEAR PGresult *r = NULL;

	if (page_ask_shared(c, db, "cli_blackouts", 1, params, &r)) {
		page_begin(c, "Blackouts", true);
		page_table(c, r, PQntuples(r), "There are no blackouts.", false);
		for (int row = 0; row < PQntuples(r) && row < 200; row++) {
			if (strcmp(db_text(r, row, PQfnumber(r, "state")), "over") != 0)
				put_end_form(c, db_text(r, row, PQfnumber(r, "name")));
		}
		put_blackout_form(c);
		page_end(c);
	}
}

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
	    "&quot;/tmp&quot;}\">"
	    "</textarea></label>\n");
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

#define SHOW(path, fn)                                              \
	{                                                           \
		"GET", path, fn, NULL, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}
#define ACT(path, fn)                                                \
	{                                                            \
		"POST", path, fn, NULL, ROUTE_KNOWN, ROUTE_AS_CALLER \
	}

const struct route page_routes[] = {
    SHOW("/", page_overview),
    SHOW("/tasks", page_tasks),
    ACT("/tasks", page_act_tasks),
    SHOW("/tasks/*", page_task),
    SHOW("/tasks/*/runs/*", page_run),
    SHOW("/find", page_find),
    ACT("/tasks/*/signal", page_act_signal),
    ACT("/tasks/*/answer", page_act_answer),
    SHOW("/history", page_history),
    SHOW("/late", page_late),
    SHOW("/began-late", page_began_late),
    SHOW("/failing", page_failing),
    SHOW("/overdue", page_overdue),
    SHOW("/waiting", page_waiting),
    SHOW("/timeline", page_timeline),
    {"GET", "/databases", page_fleet, NULL, ROUTE_KNOWN, ROUTE_FREE},
    SHOW("/month", page_month),
    SHOW("/chains", chains),
    SHOW("/chains/*", page_chain),
    SHOW("/nodes", nodes),
    ACT("/nodes/*", page_act_node),
    SHOW("/limits", limits),
    ACT("/limits", page_act_limit),
    SHOW("/blackouts", blackouts),
    ACT("/blackouts", page_act_blackout),
    ACT("/all", page_act_all),
    {"GET", "/new", new_task, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    ACT("/new", page_add),
    {"GET", "/login", login, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"POST", "/login", page_log_in, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"POST", "/logout", page_log_out, NULL, ROUTE_ANYBODY, ROUTE_HERE},
    {"GET", "/static/page.css", asset_answer, "page.css", ROUTE_ANYBODY, ROUTE_HERE},
    {"GET", "/static/page.js", asset_answer, "page.js", ROUTE_ANYBODY, ROUTE_HERE},
    {NULL, NULL, NULL, NULL, ROUTE_KNOWN, ROUTE_HERE},
};
