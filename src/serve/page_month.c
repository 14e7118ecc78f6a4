/* The page Month: the coming fires as a heat map, hours by days, with clashes and quiet times. */
#include <math.h>
#include <string.h>

#include "serve/escape.h"
#include "serve/page.h"

#define DAYS      31
#define DAYS_TEXT "31"
#define HOURS     24
#define CELL_W    40
#define CELL_H    20
#define NAMES_W   90
#define CLOSED_W  200
#define SCALE_H   18
#define LIST_MAX  20
#define QUIET_MAX 5

struct month {
	const char *timezone, *day; /* day: the one that is told in full, or NULL */
	PGresult *r, *closed;       /* closed: days, with the calendars that they are closed in */
	PGresult *clash;            /* all that is at work in one hour, or NULL */
	PGresult *late;             /* when runs will begin late */
	double most;                /* fires of one hour */
};

static bool
clashes(const PGresult *r, int row)
{
	double slots = db_field_double(r, row, "slots");

	return slots > 0 && db_field_double(r, row, "at_once") > slots;
}

/* The first row behind those of the same day. */
static int
end_of_day(const PGresult *r, int row)
{
	const char *day = db_field(r, row, "cursor");

	while (row < PQntuples(r) && strcmp(db_field(r, row, "cursor"), day) == 0)
		row++;
	return row;
}

static int
days_of(const struct month *m)
{
	int days = 0;

	for (int row = 0; row < PQntuples(m->r); row = end_of_day(m->r, row))
		days++;
	return days;
}

static void
put_cell(struct buf *o, const struct month *m, int row)
{
	int x = NAMES_W + (int)db_field_double(m->r, row, "place") * CELL_W;
	double fires = db_field_double(m->r, row, "fires");

	if (fires > 0) {
		buf_addf(o, "<rect class=\"h%d%s\" x=\"%d\"><title>%s: %.0f fires</title></rect>",
		    1 + (int)(3.99 * log1p(fires - 1) / log1p(m->most)), clashes(m->r, row) ? " hot" : "", x,
		    db_field(m->r, row, "hour"), fires);
	}
	if (clashes(m->r, row))
		buf_addf(o, "<text class=\"mark\" x=\"%d\" y=\"14\">!</text>", x + CELL_W / 2 - 2);
	if (*db_field(m->r, row, "blackouts") != '\0')
		buf_addf(o, "<rect class=\"band\" x=\"%d\" y=\"15\"/>", x);
}

static void
put_day_link(struct buf *o, const struct month *m, int row)
{
	buf_adds(o, "<a href=\"/month?timezone=");
	html_url(o, m->timezone);
	buf_addf(o, "&amp;day=%s#day\">", db_field(m->r, row, "cursor"));
}

/* A band over the whole day, with whose day it is. */
static void
put_closed(struct buf *o, const struct month *m, const char *day)
{
	int end = NAMES_W + HOURS * CELL_W;

	for (int row = 0; row < PQntuples(m->closed); row++) {
		if (strcmp(db_field(m->closed, row, "day"), day) != 0)
			continue;
		html_addf(o,
		    "<path class=\"shut\" d=\"M%d 19 H%d\"/><text class=\"dim\" x=\"%d\" y=\"14\">closed: "
		    "%s</text>",
		    NAMES_W, end - 4, end + 4, db_field(m->closed, row, "calendars"));
	}
}

static void
put_map(struct call *c, const struct month *m)
{
	struct buf *o = &c->out;
	int days = days_of(m), width = NAMES_W + HOURS * CELL_W + CLOSED_W;

	buf_addf(o,
	    "<div class=\"wide\"><svg class=\"heat\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
	    "role=\"group\" aria-labelledby=\"heat-t heat-d\"><title id=\"heat-t\">Fires by day and "
	    "hour</title><desc id=\"heat-d\">The darker, the more fires. An exclamation mark: more runs at "
	    "once than slots, or than a limit allows. A bar below: a blackout. A dashed line below a day: a "
	    "calendar closes it. The numbers are in the table below.</desc>\n",
	    width, SCALE_H + days * CELL_H, width, SCALE_H + days * CELL_H);
	for (int hour = 0; hour < HOURS; hour++)
		buf_addf(o, "<text x=\"%d\" y=\"12\">%02d</text>", NAMES_W + hour * CELL_W + 8, hour);
	for (int row = 0, day = 0; row < PQntuples(m->r); day++) {
		int end = end_of_day(m->r, row);

		buf_addf(o, "\n<g transform=\"translate(0 %d)\">", SCALE_H + day * CELL_H);
		put_day_link(o, m, row);
		buf_addf(o, "<text x=\"0\" y=\"14\">%s</text></a>", db_field(m->r, row, "label"));
		put_closed(o, m, db_field(m->r, row, "cursor"));
		for (; row < end; row++)
			put_cell(o, m, row);
		buf_adds(o, "</g>");
	}
	buf_adds(o,
	    "</svg></div>\n<p class=\"dim\">The darker, the more fires. !: a clash, more runs at once than "
	    "slots, or than a limit allows, so that some begin late. A bar: a blackout, which moves or skips "
	    "them. A dashed line: a day that a calendar closes. A day is a link to its hours.</p>\n");
}

/* Whose runs these are; the rest is a link. */
static void
put_names(struct call *c, const struct month *m, int row)
{
	html_text(&c->out, db_field(m->r, row, "names"));
	if (strcmp(db_field(m->r, row, "more"), "0") == 0)
		return;
	buf_adds(&c->out, " and <a href=\"/month?timezone=");
	html_url(&c->out, m->timezone);
	buf_addf(&c->out, "&amp;day=%s&amp;hour=%s#clash\">%s more</a>", db_field(m->r, row, "cursor"),
	    db_field(m->r, row, "place"), db_field(m->r, row, "more"));
}

static void
put_clash(struct call *c, const PGresult *r)
{
	if (r == NULL || PQntuples(r) == 0)
		return;
	html_addf(&c->out, "<h2 id=\"clash\">At work at once on %s, then the others of that hour</h2>\n<p>%s",
	    db_field(r, 0, "label"), db_field(r, 0, "names"));
	if (strcmp(db_field(r, 0, "more"), "0") != 0)
		buf_addf(&c->out, " and %s more", db_field(r, 0, "more"));
	buf_adds(&c->out, "</p>\n");
}

static bool
same_clash(const PGresult *r, int a, int b)
{
	static const char *const told[] = {"hour", "at_once", "slots", "crew", "names", "more"};

	if (!clashes(r, a))
		return false;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		if (strcmp(db_field(r, a, told[i]), db_field(r, b, told[i])) != 0)
			return false;
	}
	return true;
}

/* On how many days from this one on; 0: it was told with an earlier day. */
static int
days_of_clash(const PGresult *r, int row)
{
	int days = 0;

	for (int other = 0; other < PQntuples(r); other++) {
		if (!same_clash(r, other, row))
			continue;
		if (other < row)
			return 0;
		days++;
	}
	return days;
}

static void
put_clash_line(struct call *c, const struct month *m, int row, int days)
{
	const char *crew = db_field(m->r, row, "crew");
	bool limit = strncmp(crew, "limit ", 6) == 0;

	buf_adds(&c->out, "<li>");
	put_day_link(&c->out, m, row);
	buf_addf(&c->out, "%s %s</a>", db_field(m->r, row, "label"), db_field(m->r, row, "hour"));
	if (days > 1)
		buf_addf(&c->out, " and on %d more day%s", days - 1, days == 2 ? "" : "s");
	html_addf(&c->out, ": %s at once, %s %s %s: ", db_field(m->r, row, "at_once"),
	    db_field(m->r, row, "slots"), limit ? "may run by" : "slots of", crew);
	put_names(c, m, row);
	buf_adds(&c->out, "</li>\n");
}

/* The same clash on several days is one line. */
static void
put_clashes(struct call *c, const struct month *m)
{
	int n = 0;

	page_heading(c, "Clashes");
	for (int row = 0; row < PQntuples(m->r); row++) {
		int days = clashes(m->r, row) ? days_of_clash(m->r, row) : 0;

		if (days == 0 || n++ >= LIST_MAX)
			continue;
		buf_adds(&c->out, n == 1 ? "<ul>\n" : "");
		put_clash_line(c, m, row, days);
	}
	if (n > LIST_MAX)
		buf_addf(&c->out, "<li>and %d more, marked in the map</li>\n", n - LIST_MAX);
	buf_adds(&c->out, n > 0 ? "</ul>\n" : "<p class=\"dim\">None.</p>\n");
}

/* The hours of the day in which least is planned, all days together. */
static void
put_quiet(struct call *c, const struct month *m)
{
	double sum[HOURS] = {0};
	bool told[HOURS] = {false};

	for (int row = 0; row < PQntuples(m->r); row++)
		sum[(int)db_field_double(m->r, row, "place")] += db_field_double(m->r, row, "fires");
	buf_adds(&c->out, "<p>Quietest: ");
	for (int i = 0; i < QUIET_MAX; i++) {
		int least = -1;

		for (int hour = 0; hour < HOURS; hour++) {
			if (!told[hour] && (least < 0 || sum[hour] < sum[least]))
				least = hour;
		}
		told[least] = true;
		buf_addf(&c->out, "%s%02d:00 (%.0f)", i > 0 ? ", " : "", least, sum[least]);
	}
	buf_adds(&c->out, "; the number of fires in all days together.</p>\n");
}

/* What the map shows, for those who cannot see it. */
static void
put_numbers(struct call *c, const struct month *m)
{
	struct buf *o = &c->out;

	buf_adds(o, "<details><summary>Numbers</summary><div class=\"wide\"><table class=\"grid\"><thead><tr>"
		    "<th scope=\"col\">fires</th>");
	for (int hour = 0; hour < HOURS; hour++)
		buf_addf(o, "<th scope=\"col\">%02d</th>", hour);
	buf_adds(o, "</tr></thead>\n<tbody>");
	for (int row = 0; row < PQntuples(m->r);) {
		int end = end_of_day(m->r, row);
		double fires[HOURS] = {0};

		buf_addf(o, "<tr><th scope=\"row\">%s</th>", db_field(m->r, row, "label"));
		for (; row < end; row++)
			fires[(int)db_field_double(m->r, row, "place")] +=
			    db_field_double(m->r, row, "fires");
		for (int hour = 0; hour < HOURS; hour++)
			buf_addf(o, "<td>%.0f</td>", fires[hour]);
		buf_adds(o, "</tr>\n");
	}
	buf_adds(o, "</tbody></table></div></details>\n");
}

static void
put_day(struct call *c, const struct month *m)
{
	for (int row = 0; row < PQntuples(m->r); row = end_of_day(m->r, row)) {
		if (strcmp(db_field(m->r, row, "cursor"), m->day) != 0)
			continue;
		buf_addf(&c->out, "<h2 id=\"day\">%s</h2>\n", db_field(m->r, row, "label"));
		page_rows(c, m->r, row, end_of_day(m->r, row));
		return;
	}
	buf_adds(&c->out, "<p class=\"dim\">That day is not among these.</p>\n");
}

/* Says what is not drawn. */
static void
put_cut(struct call *c, const struct month *m)
{
	const char *says = "";

	if (PQntuples(m->r) > 0 && strcmp(db_field(m->r, 0, "complete"), "t") != 0)
		says = "There are more tasks than can be drawn: some are left out.";
	else if (days_of(m) < DAYS)
		says = "So many tasks fire so often that only these days are drawn.";
	if (*says != '\0')
		buf_addf(&c->out, "<p class=\"problem\">%s</p>\n", says);
}

static void
put_page(struct call *c, struct month *m)
{
	for (int row = 0; row < PQntuples(m->r); row++) {
		double fires = db_field_double(m->r, row, "fires");

		m->most = fires > m->most ? fires : m->most;
	}
	page_begin(c, "Month", false);
	put_cut(c, m);
	put_map(c, m);
	if (m->day != NULL)
		put_day(c, m);
	put_clash(c, m->clash);
	page_congestion(c, m->late, DAYS_TEXT " days");
	put_clashes(c, m);
	put_quiet(c, m);
	put_numbers(c, m);
	page_end(c);
}

void
page_month(struct call *c, struct db *db)
{
	struct month m = {.timezone = call_zone(c), .day = call_query(c, "day")};
	const char *params[] = {m.timezone, DAYS_TEXT, "10000"}, *ahead[] = {DAYS_TEXT " days", params[2]},
		   *hour[] = {m.timezone, m.day, call_query(c, "hour"), params[2]};

	if (call_ask_shared(c, db, "serve_month_page", 3, params, &m.r) &&
	    call_ask_shared(c, db, "serve_closed", 2, params, &m.closed) &&
	    call_ask_shared(c, db, "serve_congestion", 2, ahead, &m.late) &&
	    (m.day == NULL || hour[2] == NULL || call_ask_shared(c, db, "serve_clash", 4, hour, &m.clash)))
		put_page(c, &m);
	PQclear(m.r);
	PQclear(m.closed);
	PQclear(m.clash);
	PQclear(m.late);
}
