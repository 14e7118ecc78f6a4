/* Drawings of numbers over time: the last runs of a task, how many runs end, how many will be at work. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/escape.h"
#include "serve/page.h"

#define BAR_W  10
#define PLOT_H 60
#define SIDE_W 110 /* for the words at the right */

void
page_legend(struct call *c, const char *const (*items)[2])
{
	buf_adds(&c->out, "<p class=\"legend\">");
	for (; (*items)[0] != NULL; items++)
		buf_addf(&c->out,
		    "<svg class=\"timeline lines\" width=\"12\" height=\"12\" aria-hidden=\"true\"><circle "
		    "class=\"b-%s\" cx=\"6\" cy=\"6\" r=\"6\"/></svg>%s\n",
		    (*items)[0], (*items)[1]);
	buf_adds(&c->out, "</p>\n");
}

/* A plot, and where its next bar goes. */
struct plot {
	struct buf *o;
	int bars;
	double most; /* as high as the plot */
};

static void
begin_plot(struct plot *p, const char *says)
{
	buf_addf(p->o,
	    "<svg class=\"timeline\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"group\" "
	    "aria-label=\"%s\">\n",
	    p->bars * BAR_W + SIDE_W, PLOT_H, p->bars * BAR_W + SIDE_W, PLOT_H, says);
}

static void
end_plot(struct plot *p)
{
	buf_adds(p->o, "</svg>\n");
}

static int
height_of(const struct plot *p, double value)
{
	return value > 0 ? 2 + (int)(value / p->most * (PLOT_H - 2)) : 0;
}

/* An element that the caller ends. */
static void
begin_bar(struct plot *p, int place, double value, const char *class)
{
	int h = height_of(p, value);

	buf_addf(p->o, "<rect class=\"b-%.30s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"", class,
	    place * BAR_W, PLOT_H - h, BAR_W - 2, h);
}

static int
label_y(const struct plot *p, double value)
{
	int y = PLOT_H - height_of(p, value);

	return y < 10 ? 10 : y;
}

/* A line across the plot, with its value at the right. */
static void
put_level(struct plot *p, double value, const char *label, const char *unit)
{
	int y = PLOT_H - height_of(p, value);

	buf_addf(p->o, "<path class=\"level\" d=\"M0 %d H%d\"/><text class=\"dim\" x=\"%d\" y=\"%d\">", y,
	    p->bars * BAR_W, p->bars * BAR_W + 4, label_y(p, value));
	html_text(p->o, label);
	buf_addf(p->o, " %.4g%s</text>\n", value, unit);
}

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* The values of a column in order; returns how many there are. */
static int
sorted(const PGresult *r, int col, double *value)
{
	int n = 0;

	for (int row = 0; row < PQntuples(r); row++) {
		if (!PQgetisnull(r, row, col))
			value[n++] = db_double(r, row, col);
	}
	qsort(value, (size_t)n, sizeof *value, compare);
	return n;
}

static void
put_run(struct plot *p, const PGresult *runs, int row, int col)
{
	const char *outcome = db_field(runs, row, "outcome");

	buf_adds(p->o, "<a href=\"/timeline?at=");
	html_url(p->o, db_field(runs, row, "middle"));
	buf_addf(p->o, "&amp;span=%s\">", db_field(runs, row, "span"));
	begin_bar(p, p->bars - 1 - row, db_double(runs, row, col), outcome);
	html_addf(p->o, "><title>%s %s, %s: %s s</title></rect></a>\n", db_field(runs, row, "finished_at"),
	    outcome, PQfname(runs, col), db_text(runs, row, col));
}

static void
put_runs(struct call *c, const PGresult *runs, const char *column, const char *says)
{
	int col = PQfnumber(runs, column), n = PQntuples(runs);
	AUTO_FREE double *value = calloc((size_t)n + 1, sizeof *value);
	struct plot p = {&c->out, n, 0};

	if (value == NULL || (n = sorted(runs, col, value)) < 2 || value[n - 1] <= 0)
		return;
	p.most = value[n - 1];
	buf_addf(p.o, "<p class=\"dim\">%s, a link to what ran then:</p>\n", says);
	begin_plot(&p, says);
	for (int row = 0; row < p.bars; row++)
		put_run(&p, runs, row, col);
	put_level(&p, value[(n * 95 + 99) / 100 - 1], "p95", " s");
	if (label_y(&p, value[(n - 1) / 2]) - label_y(&p, value[(n * 95 + 99) / 100 - 1]) > 12)
		put_level(&p, value[(n - 1) / 2], "p50", " s");
	end_plot(&p);
}

static const char *const outcomes[][2] = {{"succeeded", "succeeded"}, {"failed", "failed, timed out or lost"},
    {"skipped", "skipped, missed or cancelled"}, {NULL, NULL}};

/* runs: the newest first; drawn from left to right. */
void
page_last_runs(struct call *c, const PGresult *runs)
{
	put_runs(c, runs, "seconds", "How long its last runs took");
	put_runs(c, runs, "waited", "How late its last runs began");
	if (PQntuples(runs) > 1)
		page_legend(c, outcomes);
}

static void
put_rate(struct plot *p, const PGresult *r, int row, const char *span)
{
	double runs = db_field_double(r, row, "per_second");
	const char *at = db_field(r, row, "at");

	buf_adds(p->o, "<a href=\"/timeline?at=");
	html_url(p->o, at);
	buf_addf(p->o, "&amp;span=%s\">", span);
	begin_bar(p, row, runs, "succeeded");
	html_addf(p->o, "><title>%s: %s runs per second, %s failed", at, db_field(r, row, "per_second"),
	    db_field(r, row, "failed_per_second"));
	if (*db_field(r, row, "waited_p95") != '\0')
		buf_addf(p->o, ", 95 of 100 began within %s s", db_field(r, row, "waited_p95"));
	buf_adds(p->o, "</title></rect>");
	begin_bar(p, row, db_field_double(r, row, "failed_per_second"), "failed");
	buf_adds(p->o, "/></a>\n");
}

/* What a drawing shows, for those who cannot see it. */
static void
put_numbers(struct call *c, const PGresult *r)
{
	buf_adds(&c->out, "<details><summary>Numbers</summary>");
	page_table(c, r, PQntuples(r), "", false);
	buf_adds(&c->out, "</details>\n");
}

void
page_rates(struct call *c, const PGresult *r, const char *heading, const char *span)
{
	static const char *const rates[][2] = {
	    {"succeeded", "runs that ended"}, {"failed", "of these failed"}, {NULL, NULL}};
	struct plot p = {&c->out, PQntuples(r), 0};

	for (int row = 0; row < p.bars; row++) {
		double runs = db_field_double(r, row, "per_second");

		p.most = runs > p.most ? runs : p.most;
	}
	page_heading(c, heading);
	if (p.most <= 0) {
		buf_adds(p.o, "<p class=\"dim\">Nothing ran.</p>\n");
		return;
	}
	begin_plot(&p, heading);
	for (int row = 0; row < p.bars; row++)
		put_rate(&p, r, row, span);
	put_level(&p, p.most, "", " a second");
	end_plot(&p);
	page_legend(c, rates);
	put_numbers(c, r);
}

static void
put_load(struct plot *p, const PGresult *r, int row)
{
	bool clash = db_field_double(r, row, "at_once") > db_field_double(r, row, "slots");

	begin_bar(p, row, db_field_double(r, row, "percent"), clash ? "failed" : "succeeded");
	html_addf(p->o, "><title>%s: %s fires, at most %s at once, %s slots of %s: %s</title></rect>\n",
	    db_field(r, row, "at"), db_field(r, row, "fires"), db_field(r, row, "at_once"),
	    db_field(r, row, "slots"), db_field(r, row, "crew"), db_field(r, row, "tasks"));
}

void
page_load(struct call *c, const PGresult *r)
{
	static const char *const loads[][2] = {{"succeeded", "the slots are enough"},
	    {"failed", "more runs at once than slots: some begin late"}, {NULL, NULL}};
	struct plot p = {&c->out, PQntuples(r), 100};
	double fires = 0;

	page_heading(c, "What the next day asks for");
	for (int row = 0; row < p.bars; row++) {
		double percent = db_field_double(r, row, "percent");

		p.most = percent > p.most ? percent : p.most;
		fires += db_field_double(r, row, "fires");
	}
	if (fires > 0) {
		begin_plot(&p, "How much of the slots the runs of each hour of the next day take at once");
		for (int row = 0; row < p.bars; row++)
			put_load(&p, r, row);
		put_level(&p, 100, "", " % of slots");
		end_plot(&p);
		page_legend(c, loads);
		if (strcmp(db_field(r, 0, "complete"), "t") != 0)
			buf_adds(p.o, "<p class=\"dim\">Not all: so many tasks are due that some are left "
				      "out.</p>\n");
		put_numbers(c, r);
	} else {
		buf_adds(&c->out, "<p class=\"dim\">Nothing is planned for the next day.</p>\n");
	}
	buf_adds(&c->out, "<p><a href=\"/month\">The whole month</a></p>\n");
}

void
page_congestion(struct call *c, const PGresult *r, const char *span)
{
	page_heading(c, "Will it fit?");
	buf_addf(&c->out, "<p class=\"dim\">The next %s. ", span);
	if (PQntuples(r) == 0) {
		buf_adds(&c->out,
		    "No run will begin more than a minute late, if each takes as long as usual.</p>\n");
		return;
	}
	buf_adds(&c->out,
	    "When more is to run than can, if each run takes as long as usual: until when it is worked off, "
	    "and how late runs begin. What blackouts move or skip counts at its own time.</p>\n");
	page_table(c, r, PQntuples(r), "", false);
}

/* How far a batch is: a bar of what its members are. */
void
page_batch(struct call *c, const PGresult *r)
{
	static const struct {
		const char *column, *class;
	} parts[] = {
	    {"succeeded", "succeeded"}, {"failed", "failed"}, {"running", "running"}, {"waiting", "none"}};
	double members = PQntuples(r) > 0 ? db_field_double(r, 0, "members") : 0, x = 0;

	if (members <= 0)
		return;
	page_heading(c, "Its members");
	buf_adds(&c->out,
	    "<svg class=\"timeline lines\" viewBox=\"0 0 600 20\" width=\"600\" height=\"20\" "
	    "role=\"img\" aria-label=\"How many members have ended: the numbers are below\">\n");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		double n = db_field_double(r, 0, parts[i].column), width = n / members * 600;

		buf_addf(&c->out,
		    "<rect class=\"b-%s\" x=\"%.1f\" y=\"0\" width=\"%.1f\" height=\"20\"><title>%.0f "
		    "%s</title></rect>\n",
		    parts[i].class, x, width, n, parts[i].column);
		x += width;
	}
	buf_adds(&c->out, "</svg>\n");
	page_table(c, r, 1, "", false);
}
