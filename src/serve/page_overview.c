/* The first page: how all is. */
#include <string.h>

#include "db/report.h"
#include "serve/escape.h"
#include "serve/page.h"

static void
put_card(struct call *c, const char *label, const char *value, const char *class, const char *to)
{
	buf_addf(&c->out, "<div class=\"card %s\"><dt>%s</dt><dd>", class, label);
	if (to != NULL)
		buf_addf(&c->out, "<a href=\"%s\">", to);
	html_text(&c->out, *value == '\0' ? "0" : value);
	buf_addf(&c->out, "%s</dd></div>\n", to != NULL ? "</a>" : "");
}

static void
put_cards(struct call *c, const PGresult *r)
{
	static const struct {
		const char *column, *label, *class, *to; /* to: where they are listed */
	} cards[] = {{"nodes_up", "nodes up", "", "/nodes"},
	    {"running", "running", "", "/tasks?status=running"}, {"due", "due", "", NULL},
	    {"late", "late", "warn", "#late"}, {"oldest_late", "late for up to", "warn", NULL},
	    {"parked", "parked", "bad", "/tasks?status=parked"}, {"failing", "failing", "bad", "#failing"},
	    {"overdue", "overdue", "bad", "/overdue"}, {"waiting", "waiting", "", "#waiting"},
	    {"runs_1m", "runs, last minute", "", NULL}, {"failed_1m", "failed, last minute", "bad", NULL},
	    {"runs_1h", "runs, last hour", "", "/history"},
	    {"failed_1h", "failed, last hour", "bad", "/history?outcome=failed"}};

	buf_adds(&c->out, "<dl class=\"cards\">\n");
	for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
		int col = PQfnumber(r, cards[i].column);
		const char *value = col < 0 ? "" : db_text(r, 0, col);
		bool none = *value == '\0' || strcmp(value, "0") == 0;

		/* Counts stop at ten thousand: that many or more. */
		put_card(c, cards[i].label, strcmp(value, "10000") == 0 ? "10000+" : value,
		    none ? "" : cards[i].class, none ? NULL : cards[i].to);
	}
	buf_adds(&c->out, "</dl>\n");
}

/* Where what needs attention is shown; NULL: nowhere.  path: room for it. */
static const char *
place_of(const PGresult *r, int row, struct buf *path)
{
	const char *what = db_field(r, row, "what"), *task = db_field(r, row, "task_id"),
		   *node = db_field(r, row, "node");

	static const struct {
		const char *what, *to;
	} places[] = {{"blackout", "/blackouts"}, {"node", "/nodes"}, {"slow", "/nodes"}, {"pool", "/nodes"},
	    {"limit", "/limits"}, {"failing", "#failing"}, {"missed", "/history?outcome=missed"},
	    {"waiting", "#waiting"}};

	if (*task != '\0') {
		buf_addf(path, "/tasks/%s", task);
		return buf_str(path);
	}
	if (*node != '\0') {
		buf_adds(path, "/history?outcome=lost&amp;node=");
		html_url(path, node);
		return buf_str(path);
	}
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (strcmp(places[i].what, what) == 0)
			return places[i].to;
	}
	return NULL;
}

static void
put_attention_line(struct call *c, const PGresult *r, int row)
{
	struct buf path = {0};
	const char *to = place_of(r, row, &path);

	buf_adds(&c->out, "<li>");
	if (to != NULL)
		buf_addf(&c->out, "<a href=\"%s\">", to);
	html_text(&c->out, db_field(r, row, "text"));
	buf_adds(&c->out, to != NULL ? "</a></li>\n" : "</li>\n");
	buf_fini(&path);
}

/* Of late tasks only that there are some: they are listed with their reasons. */
static void
put_attention(struct call *c, const PGresult *r, const PGresult *overview)
{
	const char *late = db_field(overview, 0, "late");
	bool none = strcmp(late, "0") == 0;

	page_heading(c, "Needs attention");
	if (PQntuples(r) == 0 && none) {
		buf_adds(&c->out, "<p class=\"dim\">Nothing.</p>\n");
		return;
	}
	buf_adds(&c->out, "<ul class=\"attention\">\n");
	if (!none)
		buf_addf(&c->out, "<li><a href=\"#late\">%s%s late, for up to %s</a></li>\n", late,
		    strcmp(late, "10000") == 0 ? "+ tasks are"
		    : strcmp(late, "1") == 0   ? " task is"
					       : " tasks are",
		    db_field(overview, 0, "oldest_late"));
	for (int row = 0; row < PQntuples(r); row++)
		put_attention_line(c, r, row);
	buf_adds(&c->out, "</ul>\n");
}

/* What a person who comes in the morning wants to know first. */
static void
put_day_past(struct call *c, const PGresult *r)
{
	const char *missed = db_field(r, 0, "missed"), *late = db_field(r, 0, "late"),
		   *since = db_field(r, 0, "since");

	if (strcmp(missed, "0") == 0 && strcmp(late, "0") == 0)
		return;
	buf_addf(&c->out,
	    "<p>%s%s <a href=\"/history?outcome=missed\">%s fire%s missed</a>, and "
	    "<a href=\"/began-late\">%s run%s began more than a minute late</a>.</p>\n",
	    *since == '\0' ? "In the last day" : "Of the last 10,000 runs, since ", since, missed,
	    strcmp(missed, "1") == 0 ? " was" : "s were", late, strcmp(late, "1") == 0 ? "" : "s");
}

/* A list that a card leads to; nothing when it is empty. */
static void
put_part(struct call *c, const char *id, const char *heading, const PGresult *r, const char *all)
{
	if (PQntuples(r) == 0)
		return;
	buf_addf(&c->out, "<h2 id=\"%s\">%s</h2>\n", id, heading);
	page_table(c, r, PQntuples(r), "", false);
	buf_addf(&c->out, "<p><a href=\"%s\">All of them</a></p>\n", all);
}

/* Whose slots are in use. */
static void
put_crews(struct call *c, const PGresult *r)
{
	buf_adds(&c->out, "<ul class=\"crews\">\n");
	for (int row = 0; row < PQntuples(r); row++) {
		const char *running = db_field(r, row, "running"), *slots = db_field(r, row, "slots");

		html_addf(&c->out,
		    "<li>%s %s <meter aria-label=\"in use\" max=\"%s\" value=\"%s\"></meter> %s of %s</li>\n",
		    db_field(r, row, "node"), db_field(r, row, "crew"), slots, running, running, slots);
	}
	buf_adds(&c->out, "</ul>\n");
}

enum part { SUMS, NEEDS, FAILING, NODES, COMING, HOUR, DAY, CREWS, LOAD, BLACKOUTS, LATE, WAITS, FITS, PAST };

void
page_overview(struct call *c, struct db *db)
{
	static const struct {
		const char *sql;
		int n;
		const char *params[2];
	} asks[] = {[SUMS] = {"cli_overview"},
	    [NEEDS] = {"cli_attention", 1, {"0"}},
	    [FAILING] = {"serve_failing_page", 1, {"8"}},
	    [NODES] = {"serve_nodes"},
	    [COMING] = {"cli_forecast", 2, {"1 day", "8"}},
	    [HOUR] = {"serve_rates", 1, {"1 hour"}},
	    [DAY] = {"serve_rates", 1, {"1 day"}},
	    [CREWS] = {"serve_crews"},
	    [LOAD] = {"serve_day"},
	    [BLACKOUTS] = {"serve_blackouts"},
	    [LATE] = {"serve_late_groups", 1, {"40"}},
	    [WAITS] = {"serve_waits", 1, {"8"}},
	    [FITS] = {"serve_congestion", 2, {"1 day", "4000"}},
	    [PAST] = {"serve_day_past"}};
	PGresult *r[sizeof asks / sizeof *asks] = {NULL};
	bool ok = true;

	for (size_t i = 0; ok && i < sizeof asks / sizeof *asks; i++)
		ok = call_ask_shared(c, db, asks[i].sql, asks[i].n, asks[i].params, &r[i]);
	if (ok) {
		page_begin(c, "Overview", true);
		put_cards(c, r[SUMS]);
		put_attention(c, r[NEEDS], r[SUMS]);
		put_day_past(c, r[PAST]);
		put_part(c, "late", "Late, by their first reason", r[LATE], "/late");
		page_section(c, "Blackouts", r[BLACKOUTS], NULL);
		page_rates(c, r[HOUR], "Runs of the last hour", "minute");
		page_rates(c, r[DAY], "Runs of the last day", "hour");
		buf_adds(&c->out, "<div id=\"failing\">");
		page_section(c, "Failing", r[FAILING], "No task fails.");
		if (PQntuples(r[FAILING]) > 0)
			buf_adds(&c->out, "<p><a href=\"/failing\">All of them</a></p>\n");
		buf_adds(&c->out, "</div>\n");
		put_part(c, "waiting", "Waits for a signal, an answer or members", r[WAITS], "/waiting");
		page_section(c, "What comes next", r[COMING], "Nothing is planned for the next day.");
		page_load(c, r[LOAD]);
		page_congestion(c, r[FITS], "24 hours");
		page_section(c, "Nodes", r[NODES], SAYS_NO_NODES);
		put_crews(c, r[CREWS]);
		page_form(c, "/all", "actions");
		page_button(c, "action", "pause", "Pause all tasks");
		page_button(c, "action", "resume", "Resume all tasks");
		buf_adds(&c->out, "</form>\n");
		page_end(c);
	}
	for (size_t i = 0; i < sizeof r / sizeof *r; i++)
		PQclear(r[i]);
}
