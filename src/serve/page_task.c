/* The page of one task. */
#include <string.h>

#include "base/texts.h"
#include "db/report.h"
#include "db/sql.h"
#include "serve/escape.h"
#include "serve/page.h"

/* Is it shown in a part of its own? */
static bool
has_place(const char *name)
{
	return IS_ONE_OF(name, "output", "error", "attempts", "chain", "steps", "command", "args", "why_at");
}

static const char *
field(const PGresult *fields, const char *name)
{
	for (int row = 0; row < PQntuples(fields); row++) {
		if (strcmp(db_text(fields, row, 0), name) == 0)
			return db_text(fields, row, 1);
	}
	return "";
}

static void
put_fields(struct call *c, const PGresult *fields)
{
	buf_adds(&c->out, "<dl class=\"facts\">\n");
	for (int row = 0; row < PQntuples(fields); row++) {
		const char *name = db_text(fields, row, 0);

		if (has_place(name))
			continue;
		buf_adds(&c->out, "<div><dt>");
		for (const char *p = name; *p != '\0'; p++)
			buf_addc(&c->out, *p == '_' ? ' ' : *p);
		buf_adds(&c->out, "</dt><dd>");
		if (strcmp(name, "why_late") == 0)
			page_why(c, name, db_text(fields, row, 1), field(fields, "why_at"));
		else
			page_value(c, name, db_text(fields, row, 1));
		buf_adds(&c->out, "</dd></div>\n");
	}
	buf_adds(&c->out, "</dl>\n");
}

static void
put_block(struct call *c, const char *heading, const char *text)
{
	if (*text == '\0' || strcmp(text, "{}") == 0)
		return;
	page_heading(c, heading);
	html_addf(&c->out, "<pre tabindex=\"0\">%s</pre>\n", text);
}

/* For a run that is under way: its output so far. */
static void
put_output(struct call *c, const PGresult *r)
{
	if (PQntuples(r) > 0)
		put_block(c, db_field_bool(r, 0, "running") ? "Output so far" : "Output of the last run",
		    db_field(r, 0, "output"));
}

static void
put_actions(struct call *c, const char *id, const char *kind)
{
	static const char *const actions[] = {
	    "run-now", "pause", "resume", "retry", "cancel", "skip-next", "delete", NULL};

	page_form(c, "/tasks", "actions");
	page_hidden(c, "task", id);
	page_come_back(c);
	for (const char *const *a = actions; *a != NULL; a++)
		page_button(c, "action", *a, *a);
	if (strcmp(kind, "batch") == 0)
		page_button(c, "action", "seal", "seal");
	buf_adds(&c->out, "</form>\n");
}

/* A form with one field, for what the task waits for; the caller adds the buttons, and the end. */
static void
begin_field(struct call *c, const PGresult *fields, const char *action, const char *label)
{
	AUTO_BUF struct buf path = {0};

	buf_addf(&path, "/tasks/%s/%s", field(fields, "id"), action);
	page_form(c, buf_str(&path), "inline");
	page_come_back(c);
	buf_addf(&c->out, "<label>%s</label>", label);
}

static void
put_signal(struct call *c, const PGresult *fields, const char *name)
{
	AUTO_BUF struct buf text = {0};

	begin_field(c, fields, "signal", "JSON for the run <input name=\"payload\" placeholder=\"null\">");
	buf_addf(&text, "send signal %s", name);
	page_button(c, "signal", name, buf_str(&text));
	buf_adds(&c->out, "</form>\n");
}

/* For a receiver that will not call back. */
static void
put_answer(struct call *c, const PGresult *fields)
{
	begin_field(c, fields, "answer", "Output, or error <input name=\"text\">");
	page_button(c, "outcome", "succeeded", "answer: succeeded");
	page_button(c, "outcome", "failed", "answer: failed");
	buf_adds(&c->out, "</form>\n");
}

/* What is no signal is in parentheses: see pgrab.waits. */
static void
put_wait(struct call *c, const PGresult *fields)
{
	const char *name = field(fields, "waits_for");

	if (strcmp(name, "(answer)") == 0)
		put_answer(c, fields);
	else if (*name != '\0' && *name != '(')
		put_signal(c, fields, name);
}

static void
put_title(struct call *c, const PGresult *fields)
{
	const char *name = *field(fields, "name") != '\0' ? field(fields, "name") : field(fields, "key");
	AUTO_BUF struct buf title = {0};

	buf_addf(&title, "Task %s", field(fields, "id"));
	if (*name != '\0')
		buf_addf(&title, ": %s", name);
	page_begin(c, buf_str(&title), true);
}

enum part { FIELDS, EXPLAIN, FIRES, LINKS, STEPS, RUNS, UNRUN, EDITS, OUTPUT, BATCH, MEMBERS, PARTS };

/* A task that has ended is explained by its runs. */
static bool
ask_rest(struct call *c, struct db *db, PGresult *p[PARTS])
{
	const char *id = field(p[FIELDS], "id");
	const struct {
		enum part part;
		const char *sql;
		int n;
		const char *params[3];
	} asks[] = {{FIRES, "serve_fires", 1, {id}}, {LINKS, "serve_chain_page", 3, {id, NULL, "2000"}},
	    {STEPS, "cli_show_steps", 1, {id}}, {RUNS, "serve_task_runs_page", 2, {id, "100"}},
	    {UNRUN, "serve_unrun", 1, {id}}, {EDITS, "cli_diff", 3, {id, NULL, "50"}},
	    {EXPLAIN, "cli_explain", 1, {id}}, {OUTPUT, "serve_output", 1, {id}},
	    {BATCH, "serve_batch", 1, {id}}, {MEMBERS, "serve_members", 2, {id, "10"}}};
	bool batch = strcmp(field(p[FIELDS], "kind"), "batch") == 0, ok = true;

	for (size_t i = 0; ok && i < sizeof asks / sizeof *asks; i++) {
		if (batch || asks[i].part < BATCH)
			ok = call_ask(c, db, asks[i].sql, asks[i].n, asks[i].params, &p[asks[i].part]);
	}
	return ok;
}

/* The last hundred, and where the others are. */
static void
put_runs(struct call *c, PGresult *const *p)
{
	const char *id = field(p[FIELDS], "id");

	page_section(c, "Runs", p[RUNS], "It has not run yet.");
	buf_addf(&c->out, "<p><a href=\"/history?task=%s\">All its history</a>", id);
	for (int row = 0; row < PQntuples(p[UNRUN]); row++) {
		const char *outcome = db_text(p[UNRUN], row, 0), *n = db_text(p[UNRUN], row, 1);

		buf_addf(&c->out,
		    "; <a href=\"/history?task=%s&amp;outcome=%s\">%s fire%s %s in the last 7 days</a>", id,
		    outcome, n, strcmp(n, "1") == 0 ? "" : "s", outcome);
	}
	buf_adds(&c->out, "</p>\n");
}

static void
put_parts(struct call *c, PGresult *const *p)
{
	const PGresult *f = p[FIELDS];

	put_title(c, f);
	put_actions(c, field(f, "id"), field(f, "kind"));
	put_wait(c, f);
	put_fields(c, f);
	page_last_runs(c, p[RUNS]);
	put_block(c, "Command", field(f, "command"));
	put_block(c, "Arguments", field(f, "args"));
	page_section(c, "Why it is not running", p[EXPLAIN], NULL);
	if (p[BATCH] != NULL) {
		page_batch(c, p[BATCH]);
		page_section(c, "Members that have not ended", p[MEMBERS], NULL);
	}
	page_section(c, "Next fires", p[FIRES], NULL);
	if (PQntuples(p[LINKS]) > 1) {
		page_heading(c, "Its chain");
		page_graph(c, p[LINKS], field(f, "id"), "");
		buf_addf(&c->out, "<p><a href=\"/chains/%s\">Its runs and their critical path</a></p>\n",
		    field(f, "id"));
	}
	page_section(c, "Steps", p[STEPS], NULL);
	put_runs(c, p);
	put_output(c, p[OUTPUT]);
	page_section(c, "Edits", p[EDITS], NULL);
	page_end(c);
}

/* Finds the task by its id, key or name. */
static bool
ask_fields(struct call *c, struct db *db, PGresult **p)
{
	const char *name[] = {c->part[0]}, *id[1];
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	enum rc rc;
	bool ok = call_ask(c, db, "cli_id", 1, name, &r);

	if (ok) {
		id[0] = db_text(r, 0, 0);
		rc = report_fields(db, "serve_show", 1, id, &p[FIELDS], &err);
		if (rc != RC_OK)
			call_failed(c, rc, &err);
		ok = rc == RC_OK;
	}
	return ok;
}

void
page_task(struct call *c, struct db *db)
{
	PGresult *p[PARTS] = {NULL};

	if (ask_fields(c, db, p) && ask_rest(c, db, p))
		put_parts(c, p);
	for (int i = 0; i < PARTS; i++)
		PQclear(p[i]);
}

/* One run, with all of its error and output. */
void
page_run(struct call *c, struct db *db)
{
	const char *which[] = {c->part[0], c->part[1]};
	AUTO_BUF struct buf title = {0};
	struct err err = {0};
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = report_fields(db, "serve_run", 2, which, &r, &err);

	if (rc != RC_OK) {
		call_failed(c, rc, &err);
	} else if (PQntuples(r) == 0) {
		call_problem(
		    c, 404, "there is no such run", "/history lists those that the history still has.");
	} else {
		buf_addf(&title, "Run of task %s", field(r, "task_id"));
		page_begin(c, buf_str(&title), false);
		put_fields(c, r);
		put_block(c, "Error", field(r, "error"));
		put_block(c, "Output", field(r, "output"));
		page_end(c);
	}
}

/* The search in the header: one task by its id, key or name, or the list of those with such a name. */
void
page_find(struct call *c, struct db *db)
{
	const char *name[] = {call_query(c, "q")};
	AUTO_BUF struct buf path = {0};
	struct err err = {0};
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = name[0] == NULL ? RC_BAD : db_query(db, sql_text("cli_id"), 1, name, &r, &err);

	if (rc == RC_OK) {
		buf_addf(&path, "/tasks/%s", db_text(r, 0, 0));
	} else {
		buf_adds(&path, "/tasks?q=");
		html_url(&path, name[0] == NULL ? "" : name[0]);
	}
	if (rc == RC_AGAIN)
		call_failed(c, rc, &err);
	else
		page_back(c, buf_str(&path));
}
