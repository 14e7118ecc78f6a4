/* Tables of rows: where values lead, and how they are shown. */
#include <string.h>

#include "base/alloc.h"
#include "base/texts.h"
#include "base/utf8.h"
#include "serve/escape.h"
#include "serve/page.h"

#define CELL_MAX  300 /* bytes of a value in a table; the page that it leads to has it whole */
#define TITLE_MAX 1000

/* At most so many bytes, and no half character. */
static void
put_first(struct buf *out, const char *value, size_t most)
{
	AUTO_FREE char *copy = xmemdup0(value, strnlen(value, most));

	(void)utf8_trim(copy, strlen(copy));
	html_text(out, copy);
}

/* The last bytes of it, without a half character. */
static void
put_last(struct buf *out, const char *value, size_t most)
{
	value += strlen(value) - most;
	while ((*value & 0xc0) == 0x80)
		value++;
	html_text(out, value);
}

/* "2026-11-22 03:00:00.123456+00": the page says once which zone that is, and to the second is enough. */
static bool
is_time(const char *value)
{
	static const char form[] = "dddd-dd-dd dd:dd:dd";
	size_t n = sizeof form - 1;

	for (size_t i = 0; i < n; i++) {
		if (form[i] == 'd' ? value[i] < '0' || value[i] > '9' : value[i] != form[i])
			return false;
	}
	value += n + strspn(value + n, ".0123456789");
	return (*value == '+' || *value == '-') && value[strspn(value, "+-:0123456789")] == '\0';
}

void
page_value(struct call *c, const char *column, const char *value)
{
	static const char *const letters = "abcdefghijklmnopqrstuvwxyz_";

	if (IS_ONE_OF(column, "id", "task_id", "root")) {
		buf_adds(&c->out, *column == 'r' ? "<a href=\"/chains/" : "<a href=\"/tasks/");
		html_url(&c->out, value);
		html_addf(&c->out, "\">%s</a>", value);
	} else if (IS_ONE_OF(column, "status", "outcome", "state", "verdict", "last_outcome") &&
		   *value != '\0' && value[strspn(value, letters)] == '\0') {
		buf_addf(&c->out, "<span class=\"s s-%s\">%s</span>", value, value);
	} else if (is_time(value)) {
		buf_add(&c->out, value, strlen("2026-11-22 03:00:00"));
	} else {
		html_text(&c->out, value);
	}
}

void
page_why(struct call *c, const char *column, const char *value, const char *at)
{
	const char *reason = strchr(value, '\n') != NULL ? strchr(value, '\n') + 1 : value;

	if (*at == '\0' || *reason == '\0') {
		page_value(c, column, value);
		return;
	}
	if (strncmp(reason, "blackout ", strlen("blackout ")) == 0) {
		buf_adds(&c->out, "<a href=\"/blackouts\">");
	} else {
		buf_adds(&c->out, "<a href=\"/timeline?span=hour&amp;at=");
		html_url(&c->out, at);
		buf_adds(&c->out, "\">");
	}
	page_value(c, column, value);
	buf_adds(&c->out, "</a>");
}

/* How many to show: not what is behind where the next page begins, nor the path of a database. */
static int
columns(const PGresult *r)
{
	int end = PQfnumber(r, "cursor");

	end = end < 0 ? PQfnumber(r, "path") : end;
	return end < 0 ? PQnfields(r) : end;
}

/* Where the value of a column leads: a path, and the column of what follows it. */
static const struct {
	const char *column, *path, *of;
} leads[] = {{"name", "/tasks/", "id"}, {"name", "/tasks/", "task_id"}, {"task", "/tasks/", "id"},
    {"task", "/tasks/", "task_id"}, {"runs_lost", "/history?outcome=lost&amp;node=", "node"}};

/* Returns what follows the path, or NULL: it leads nowhere. */
static const char *
lead_of(const PGresult *r, int row, int col, const char **path)
{
	for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
		int of = PQfnumber(r, leads[i].of);

		*path = leads[i].path;
		if (of < 0 || strcmp(leads[i].column, PQfname(r, col)) != 0)
			continue;
		if (*db_text(r, row, of) != '\0' && *db_text(r, row, col) != '\0')
			return db_text(r, row, of);
	}
	return NULL;
}

/* The page of the run that a row is about. */
static bool
put_run_path(struct buf *o, const PGresult *r, int row)
{
	int task = PQfnumber(r, "task_id"), version = PQfnumber(r, "version");

	if (task < 0 || version < 0)
		return false;
	buf_addf(o, "/tasks/%s/runs/%s", db_text(r, row, task), db_text(r, row, version));
	return true;
}

/* What is too long for a table: its beginning, and where all of it is.  Of an error its end, which says what
 * went wrong. */
static void
put_cut(struct call *c, const PGresult *r, int row, int col)
{
	const char *value = db_text(r, row, col);
	bool end = strcmp(PQfname(r, col), "error") == 0;
	int id = PQfnumber(r, "id") < 0 ? PQfnumber(r, "task_id") : PQfnumber(r, "id");
	AUTO_BUF struct buf path = {0};

	if (!put_run_path(&path, r, row) && id >= 0)
		buf_addf(&path, "/tasks/%s", db_text(r, row, id));
	if (!end)
		put_first(&c->out, value, CELL_MAX);
	buf_addf(&c->out, "<%s%s%s title=\"", path.len > 0 ? "a href=\"" : "span", buf_str(&path),
	    path.len > 0 ? "\" aria-label=\"all of it\"" : "");
	put_first(&c->out, value, TITLE_MAX);
	buf_addf(&c->out, "\">…</%s>", path.len > 0 ? "a" : "span");
	if (end)
		put_last(&c->out, value, CELL_MAX);
}

static void
put_cell(struct call *c, const PGresult *r, int row, int col)
{
	const char *value = db_text(r, row, col), *path, *to = lead_of(r, row, col, &path);
	size_t indent = to != NULL ? strspn(value, " ") : 0; /* of a tree */
	AUTO_BUF struct buf run = {0};

	if (strcmp(PQfname(r, col), "database") == 0) {
		/* In single quotes: not to be made a path of this database, see prefix.c. */
		html_addf(&c->out, "<a href='%s/'>%s</a>", db_field(r, row, "path"), value);
		return;
	}
	buf_add(&c->out, value, indent);
	if (strcmp(PQfname(r, col), "outcome") == 0 && put_run_path(&run, r, row)) {
		path = buf_str(&run);
		to = "";
	}
	if (IS_ONE_OF(PQfname(r, col), "why_late", "waited") && PQfnumber(r, "why_at") >= 0) {
		page_why(c, PQfname(r, col), value, db_field(r, row, "why_at"));
		return;
	}
	if (to == NULL && strlen(value) > CELL_MAX) {
		put_cut(c, r, row, col);
		return;
	}
	if (to != NULL) {
		buf_addf(&c->out, "<a href=\"%s", path);
		html_url(&c->out, to);
		buf_adds(&c->out, "\">");
	}
	page_value(c, PQfname(r, col), value + indent);
	if (to != NULL)
		buf_adds(&c->out, "</a>");
}

/* One of our names, in words for people. */
static void
put_words(struct buf *out, const char *name)
{
	for (; *name != '\0'; name++)
		buf_addc(out, *name == '_' ? ' ' : *name);
}

static void
put_row(struct call *c, const PGresult *r, int row, bool checks)
{
	struct buf *o = &c->out;

	buf_adds(o, "<tr>");
	if (checks)
		html_addf(o,
		    "<td><input type=\"checkbox\" name=\"task\" value=\"%s\" aria-label=\"Task %s\"></td>",
		    db_text(r, row, 0), db_text(r, row, 0));
	for (int col = 0; col < columns(r); col++) {
		buf_adds(o, "<td data-label=\"");
		put_words(o, PQfname(r, col));
		buf_adds(o, "\">");
		put_cell(c, r, row, col);
		buf_adds(o, "</td>");
	}
	buf_adds(o, "</tr>\n");
}

/* What a heading means, where its word does not say it. */
static const char *
help_of(const char *column)
{
	static const struct {
		const char *column, *says;
	} helps[] = {{"waited", "seconds from the planned time to the start of a first attempt"},
	    {"seconds", "how long the run took; of a database, how long ago it was asked"},
	    {"why_late", "what kept it, as far as it was recorded"},
	    {"attempt", "which attempt at that fire"},
	    {"verdict", "ok; waits: time or other tasks open it; blocked: a person must"},
	    {"gate", "what a task must pass before it runs"},
	    {"usual", "the median of its last 32 successes"},
	    {"becomes", "what a blackout or its calendar makes of the fire"},
	    {"first_reason", "the first thing that keeps these tasks from running"},
	    {"late_by", "for how long it has been due, or will have been when it begins"},
	    {"busy", "runs in progress of the runs that it can have at once"},
	    {"heartbeat_age", "how long ago it was last heard of"},
	    {"shards", "of 1024 parts of all tasks, how many it looks after"},
	    {"attempted", "tasks that it tried to take"}, {"won", "tasks that it took"},
	    {"beaten_to", "tasks that another node took first"},
	    {"last_heard_of", "the time of its last heartbeat"},
	    {"stolen", "tasks that it took because their owner did not"},
	    {"overridden", "what was set in pgrab.node instead of its own file"},
	    {"runs_lost", "runs that were in progress when the node died"},
	    {"times_usual", "against the median of the same tasks on the other nodes; 2 takes twice as long"},
	    {"seconds_p50", "the median of how long runs took"},
	    {"waited_p95", "95 of 100 runs began within so many seconds of their time"},
	    {"started_1s", "starts within the last second"},
	    {"longest", "how long the first in line has waited"}, {"failures", "failures in a row"},
	    {"ends_by", "when its timeout ends it; empty: it has none"},
	    {"breaks", "nothing starts for so long after so many failures in a row"},
	    {"broken_until", "nothing starts before then, and after it one run at a time tries"},
	    {"place", "runs; about to start: a place is kept for it; in line: it waits for one"},
	    {"waited_for", "what kept it from running at that moment"},
	    {"held", "how many tasks it keeps from running"},
	    {"names", "whose runs these are, with how late each begins at most (hours:minutes)"},
	    {"worst_at", "when most work waits"}, {"more", "how many more tasks"},
	    {"at_once", "how many runs are at work when it is most"},
	    {"slots", "how many the nodes that are up can run at once"},
	    {"crew", "who carries them out: the workers, http, a pool of handlers"},
	    {"percent", "of the slots, those in use at once; of a batch, the members that have ended"},
	    {"unknown", "fires of tasks that have never succeeded"},
	    {"work_seconds", "how much work begins then, if runs take as long as usual"},
	    {"critical", "on the path that decided when the run ended"}};

	for (size_t i = 0; i < sizeof helps / sizeof *helps; i++) {
		if (strcmp(helps[i].column, column) == 0)
			return helps[i].says;
	}
	return NULL;
}

static void
put_heading(struct buf *o, const char *column)
{
	const char *help = help_of(column);

	buf_addf(o, "<th scope=\"col\"%s%s%s>", help == NULL ? "" : " title=\"", help == NULL ? "" : help,
	    help == NULL ? "" : "\"");
	put_words(o, column);
	buf_adds(o, "</th>");
}

/* Rows [from, to). */
static void
put_table(struct call *c, const PGresult *r, int from, int to, bool checks)
{
	struct buf *o = &c->out;

	buf_adds(o, "<div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>");
	if (checks)
		buf_adds(o, "<th scope=\"col\"><span class=\"hidden\">choose</span></th>");
	for (int col = 0; col < columns(r); col++)
		put_heading(o, PQfname(r, col));
	buf_adds(o, "</tr></thead>\n<tbody>\n");
	for (int row = from; row < to; row++)
		put_row(c, r, row, checks);
	buf_adds(o, "</tbody></table></div>\n");
}

void
page_table(struct call *c, const PGresult *r, int rows, const char *nothing, bool checks)
{
	if (rows == 0)
		buf_addf(&c->out, "<p class=\"dim\">%s</p>\n", nothing);
	else
		put_table(c, r, 0, rows, checks);
}

void
page_rows(struct call *c, const PGresult *r, int from, int to)
{
	put_table(c, r, from, to, false);
}

void
page_section(struct call *c, const char *heading, const PGresult *r, const char *nothing)
{
	if (PQntuples(r) == 0 && nothing == NULL)
		return;
	page_heading(c, heading);
	page_table(c, r, PQntuples(r), nothing, false);
}
