/* The page Timeline: what ran when and where, and who had the workers at a moment. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/texts.h"
#include "serve/escape.h"
#include "serve/page.h"

#define DRAWING_W 1000 /* of the drawing without the names at its left */
#define NAMES_W   150
#define SCALE_H   22
#define BAR_H     14
#define TRACKS    10 /* runs of one line that are drawn below each other; further ones share the last */
#define PART_H    36
#define CHAR_W    7 /* of a name on a bar, at most */

static const struct span {
	const char *name, *interval, *mark; /* mark: the distance of two marks of the scale */
} spans[] = {{"minute", "1 minute", "10 s"}, {"hour", "1 hour", "10 minutes"}, {"day", "1 day", "3 hours"},
    {"week", "7 days", "1 day"}};

struct timeline {
	const struct span *span;
	const char *by; /* node, task */
	PGresult *frame, *bars, *moment;
};

/* The rows of one line of the drawing, and where they go. */
struct line {
	int first, end; /* rows of bars */
	int tracks;
	bool parts;   /* each bar stands for many runs */
	int64_t most; /* in one part */
	int64_t runs, failed;
	double seconds;
};

static int
left_of(double x)
{
	return NAMES_W + (int)(x * DRAWING_W);
}

/* A link to another window. */
static void
put_link(struct call *c, const struct timeline *t, const char *at, const struct span *span, const char *by,
    const char *label)
{
	buf_adds(&c->out, "<a href=\"/timeline?");
	if (*at != '\0') {
		buf_adds(&c->out, "at=");
		html_url(&c->out, at);
		buf_adds(&c->out, "&amp;");
	}
	buf_addf(&c->out, "span=%s&amp;by=%s\"%s>%s</a>\n", span->name, by,
	    strcmp(label, t->span->name) == 0 ? " aria-current=\"true\"" : "", label);
}

static void
put_links(struct call *c, const struct timeline *t)
{
	const char *middle = db_field(t->frame, 0, "middle"), *later = db_field(t->frame, 0, "later");
	const char *at = *db_field(t->frame, 0, "at") == '\0' ? "" : middle;
	const char *other = strcmp(t->by, "task") == 0 ? "node" : "task";

	html_addf(&c->out,
	    "<form class=\"filter\" role=\"search\"><label>At <input name=\"at\" value=\"%s\" "
	    "placeholder=\"03:00, Mon 03:00, 2026-11-22 03:00, 2h\"></label>",
	    db_field(t->frame, 0, "at"));
	page_hidden(c, "span", t->span->name);
	page_hidden(c, "by", t->by);
	page_keep_zone(c);
	buf_adds(&c->out, "<button>Show</button></form>\n<nav class=\"zoom\" aria-label=\"Window\">");
	put_link(c, t, db_field(t->frame, 0, "earlier"), t->span, t->by, "Earlier");
	if (*later != '\0')
		put_link(c, t, later, t->span, t->by, "Later");
	put_link(c, t, "", t->span, t->by, "Now");
	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++)
		put_link(c, t, at, &spans[i], t->by, spans[i].name);
	put_link(c, t, at, t->span, other, strcmp(other, "task") == 0 ? "By task" : "By node");
	buf_adds(&c->out, "</nav>\n");
}

/* Where a run is drawn so that it hides no other: the first track that is free by then. */
static int
find_track(double *busy_until, double from, double until)
{
	int track = 0;

	while (track < TRACKS - 1 && busy_until[track] > from)
		track++;
	busy_until[track] = until;
	return track;
}

/* The rows of the line that begins at `first`. */
static struct line
measure(const PGresult *bars, int first, int *track)
{
	struct line l = {.first = first, .end = first};
	double busy_until[TRACKS] = {0};

	for (; l.end < PQntuples(bars) &&
	       strcmp(db_field(bars, l.end, "line"), db_field(bars, first, "line")) == 0;
	     l.end++) {
		int64_t runs = (int64_t)db_field_double(bars, l.end, "runs");

		l.parts = l.parts || *db_field(bars, l.end, "task_id") == '\0';
		l.runs += runs;
		l.failed += (int64_t)db_field_double(bars, l.end, "failed");
		l.seconds += db_field_double(bars, l.end, "seconds");
		l.most = runs > l.most ? runs : l.most;
		track[l.end] = find_track(
		    busy_until, db_field_double(bars, l.end, "x"), db_field_double(bars, l.end, "end_x"));
		l.tracks = track[l.end] >= l.tracks ? track[l.end] + 1 : l.tracks;
	}
	return l;
}

static int
height_of(const struct line *l)
{
	return (l->parts ? PART_H : l->tracks * BAR_H) + 6;
}

/* As wide as its time, but to be seen. */
static void
put_rect(struct buf *o, const char *class, double from, double until, int y, int height)
{
	int x = left_of(from), width = left_of(until) - x;

	buf_addf(o, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", class, x, y,
	    width < 2 ? 2 : width, height);
}

/* Characters, not bytes. */
static int
length_of(const char *text)
{
	int n = 0;

	for (; *text != '\0'; text++)
		n += (*text & 0xc0) != 0x80;
	return n;
}

/* On its bar, where it fits. */
static void
put_name(struct buf *o, const PGresult *bars, int row, int y)
{
	const char *name = db_field(bars, row, "name");
	int x = left_of(db_field_double(bars, row, "x"));

	if (*name == '\0' || length_of(name) * CHAR_W + 6 > left_of(db_field_double(bars, row, "end_x")) - x)
		return;
	html_addf(o, "<text class=\"on\" x=\"%d\" y=\"%d\">%s</text>", x + 3, y + BAR_H - 4, name);
}

/* The times of the whole run, also of one that goes on beyond the window. */
static void
put_run_title(struct buf *o, const PGresult *bars, int row)
{
	const char *name = db_field(bars, row, "name"), *due = db_field(bars, row, "due");

	html_addf(o, "><title>%s: %s, %s s, %s%s", *name == '\0' ? db_field(bars, row, "task_id") : name,
	    db_field(bars, row, "outcome"), db_field(bars, row, "took"), db_field(bars, row, "start"),
	    db_field(bars, row, "until"));
	if (*due != '\0')
		buf_addf(o, ", due %s", due);
	buf_adds(o, "</title></rect>");
}

static void
put_run(struct buf *o, const PGresult *bars, int row, int y, bool names)
{
	char class[40];

	buf_adds(o, "<a href=\"/tasks/");
	html_url(o, db_field(bars, row, "task_id"));
	buf_adds(o, "\">");
	if (*db_field(bars, row, "due_x") != '\0') {
		put_rect(o, "b-wait", db_field_double(bars, row, "due_x"), db_field_double(bars, row, "x"),
		    y + 5, BAR_H - 11);
		buf_adds(o, "/>");
	}
	snprintf(class, sizeof class, "b-%.30s", db_field(bars, row, "outcome"));
	put_rect(
	    o, class, db_field_double(bars, row, "x"), db_field_double(bars, row, "end_x"), y, BAR_H - 1);
	put_run_title(o, bars, row);
	if (names)
		put_name(o, bars, row, y);
	buf_adds(o, "</a>\n");
}

/* What ended in a part of the window: as high as there were many, red as far as they failed. */
static void
put_part(struct buf *o, const PGresult *bars, int row, int y, int64_t most)
{
	double runs = db_field_double(bars, row, "runs"), failed = db_field_double(bars, row, "failed");
	int high = 3 + (int)(runs / (double)most * (PART_H - 3));
	int bad = failed > 0 ? 2 + (int)(failed / runs * (high - 2)) : 0;
	double x = db_field_double(bars, row, "x"), end = db_field_double(bars, row, "end_x");

	put_rect(o, "b-succeeded", x, end, y + PART_H - high, high - bad);
	buf_addf(o, "><title>%s %s%s runs, %s failed</title></rect>\n", db_field(bars, row, "start"),
	    db_field(bars, row, "runs"), strcmp(db_field(bars, row, "more"), "t") == 0 ? " or more" : "",
	    db_field(bars, row, "failed"));
	if (bad > 0) {
		put_rect(o, "b-failed", x, end, y + PART_H - bad, bad);
		buf_adds(o, "/>\n");
	}
}

static void
put_line(struct buf *o, const struct timeline *t, const struct line *l, const int *track, int y)
{
	html_addf(o, "<text x=\"0\" y=\"%d\">%s</text><path class=\"edge\" d=\"M0 %d H%d\"/>\n", y + 12,
	    db_field(t->bars, l->first, "line"), y + height_of(l) - 2, left_of(1));
	for (int row = l->first; row < l->end; row++) {
		if (l->parts)
			put_part(o, t->bars, row, y, l->most);
		else
			put_run(o, t->bars, row, y + track[row] * BAR_H, strcmp(t->by, "node") == 0);
	}
}

static void
put_scale(struct buf *o, const struct timeline *t, int height)
{
	for (int row = 0; row < PQntuples(t->frame); row++) {
		int x = left_of(db_field_double(t->frame, row, "x"));

		buf_addf(o,
		    "<path class=\"mark\" d=\"M%d %d V%d\"/><text class=\"dim\" x=\"%d\" "
		    "y=\"14\">%s</text>\n",
		    x, SCALE_H - 4, height, x + 3, db_field(t->frame, row, "mark"));
	}
	if (*db_field(t->frame, 0, "at") != '\0')
		buf_addf(o, "<path class=\"at\" d=\"M%d 0 V%d\"/>\n", left_of(0.5), height);
}

/* The numbers of the drawing. */
static void
put_sums(struct call *c, const struct timeline *t, const struct line *lines, int n)
{
	buf_addf(&c->out,
	    "<div class=\"wide\"><table><thead><tr><th scope=\"col\">%s</th><th scope=\"col\">runs</th>"
	    "<th scope=\"col\">failed</th><th scope=\"col\">busy</th></tr></thead>\n<tbody>",
	    t->by);
	for (int i = 0; i < n; i++) {
		html_addf(&c->out, "<tr><td data-label=\"%s\">%s</td>", t->by,
		    db_field(t->bars, lines[i].first, "line"));
		buf_addf(&c->out,
		    "<td data-label=\"runs\">%" PRId64 "%s</td><td data-label=\"failed\">%" PRId64
		    "</td><td data-label=\"busy\">%.0f s</td></tr>\n",
		    lines[i].runs, lines[i].parts ? "+" : "", lines[i].failed, lines[i].seconds);
	}
	buf_adds(&c->out, "</tbody></table></div>\n");
}

static void
put_drawing(struct call *c, const struct timeline *t)
{
	int n = PQntuples(t->bars), count = 0, y = SCALE_H, height = SCALE_H;
	AUTO_FREE int *track = calloc((size_t)n + 1, sizeof *track);
	AUTO_FREE struct line *lines = calloc((size_t)n + 1, sizeof *lines);

	if (track == NULL || lines == NULL)
		return;
	for (int row = 0; row < n; row = lines[count++].end) {
		lines[count] = measure(t->bars, row, track);
		height += height_of(&lines[count]);
	}
	buf_addf(&c->out,
	    "<div class=\"wide\"><svg class=\"timeline lines\" viewBox=\"0 0 %d %d\" width=\"%d\" "
	    "height=\"%d\" role=\"group\" aria-label=\"What ran from %s to %s, by %s\">\n",
	    NAMES_W + DRAWING_W, height, NAMES_W + DRAWING_W, height, db_field(t->frame, 0, "since"),
	    db_field(t->frame, 0, "until"), t->by);
	put_scale(&c->out, t, height);
	for (int i = 0; i < count; y += height_of(&lines[i++]))
		put_line(&c->out, t, &lines[i], track, y);
	buf_adds(&c->out, "</svg></div>\n");
	if (count > 0 && lines[0].parts)
		buf_adds(&c->out,
		    "<p class=\"dim\">Too many runs to draw each: a bar stands for those that ended in its "
		    "time. A + means that not all of them were counted. A shorter window shows more.</p>\n");
	put_sums(c, t, lines, count);
}

static void
put_page(struct call *c, const struct timeline *t)
{
	static const char *const colours[][2] = {{"wait", "waited"}, {"running", "runs"},
	    {"succeeded", "succeeded"}, {"failed", "failed, timed out or lost"},
	    {"skipped", "skipped, missed or cancelled"}, {NULL, NULL}};

	page_begin(c, "Timeline", *db_field(t->frame, 0, "at") == '\0');
	put_links(c, t);
	buf_addf(&c->out, "<p>From %s to %s.</p>\n", db_field(t->frame, 0, "since"),
	    db_field(t->frame, 0, "until"));
	if (PQntuples(t->bars) == 0) {
		buf_adds(&c->out, "<p class=\"dim\">Nothing ran.</p>\n");
	} else {
		page_legend(c, colours);
		put_drawing(c, t);
	}
	if (t->moment != NULL)
		page_section(c, "At that moment", t->moment, "Nothing ran, and nothing waited.");
	page_end(c);
}

void
page_timeline(struct call *c, struct db *db)
{
	const char *span = call_query(c, "span"), *by = call_query(c, "by");
	struct timeline t = {.by = by == NULL ? "node" : by};
	char moment[MOMENT_MAX];
	const char *at = call_moment(c, "at", moment);

	for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
		if (strcmp(spans[i].name, span == NULL ? "hour" : span) == 0)
			t.span = &spans[i];
	}
	if (t.span == NULL || !IS_ONE_OF(t.by, "node", "task")) {
		call_problem(c, 400, "there is no such timeline",
		    "span is minute, hour, day or week; by is node or task.");
		return;
	}
	const char *frame[] = {at, t.span->interval, t.span->mark}, *bars[] = {at, t.span->interval, t.by};

	if (call_ask_shared(c, db, "serve_timeline_frame", 3, frame, &t.frame) &&
	    call_ask_shared(c, db, "serve_timeline_page", 3, bars, &t.bars) &&
	    (at == NULL || call_ask_shared(c, db, "serve_moment", 1, frame, &t.moment)))
		put_page(c, &t);
	PQclear(t.frame);
	PQclear(t.bars);
	PQclear(t.moment);
}
