/* The frame: three lines of sums, one for trouble, then the lists, which share the rows that are left. */
#include "cli/top_show.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/spark.h"
#include "cli/table.h"

#define BOLD "\033[1m"
#define RED  "\033[31m"

#define SPARK_COLUMNS 60 /* a line of them fits 80 columns */
#define BAR_COLUMNS   50 /* so does this, with the words behind it */
#define SPARK_ROWS    20 /* a screen that has fewer rows is for the lists */

/* The frame while it is written.  Lines past the last row are dropped. */
struct frame {
	struct buf *out;
	const struct top_view *view;
	size_t left; /* rows */
};

/* A line of ours: cut, then coloured, so that the cut cannot take the end of a colour. */
static void PRINTF_LIKE(3, 4) put_line(struct frame *f, const char *style, const char *fmt, ...)
{
	const struct screen *s = &f->view->screen;
	bool styled = s->color && *style != '\0';
	struct buf line = {0};
	char text[1024];
	va_list ap;

	if (f->left == 0)
		return;
	f->left--;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	text_line(&line, text);
	buf_addf(f->out, "%s%.*s%s\n", styled ? style : "",
	    (int)(s->columns > 0 ? text_fit(buf_str(&line), s->columns) : line.len), buf_str(&line),
	    styled ? "\033[0m" : "");
	buf_fini(&line);
}

/* The first n lines of a text that is ready to be shown. */
static void
put_lines(struct frame *f, const char *text, size_t n)
{
	for (; n > 0 && f->left > 0 && *text != '\0'; n--, f->left--) {
		size_t length = strcspn(text, "\n") + 1;

		buf_add(f->out, text, length);
		text += length;
	}
}

/* A reason is shown whole, over several lines if one is too short. */
static void
put_wrapped(struct frame *f, const char *style, const char *text)
{
	size_t columns = f->view->screen.columns, n;
	AUTO_BUF struct buf line = {0};

	text_line(&line, text);
	for (const char *p = buf_str(&line); *p != '\0'; p += n) {
		n = columns > 0 ? text_fit(p, columns) : strlen(p);
		if (n == 0)
			break; /* a wide character on a screen of one column */
		put_line(f, style, "%.*s", (int)n, p);
	}
}

void
top_rates_note(struct top_rates *r, const PGresult *overview, int64_t at_us)
{
	size_t i = r->n++ % TOP_RATE_FRAMES;

	r->frame[i].at_us = at_us;
	r->frame[i].runs = top_number(overview, "runs_total");
	r->frame[i].failures = top_number(overview, "failures_total");
}

/* "12.3 runs/s, 0.1 failures/s"; before the second frame, from the last minute. */
static void
rate_text(char *out, size_t size, const struct top_rates *r, const PGresult *overview)
{
	double runs = (double)top_number(overview, "runs_1m") / 60;
	double failures = (double)top_number(overview, "failures_1m") / 60;

	if (r != NULL && r->n > 1) {
		size_t last = (r->n - 1) % TOP_RATE_FRAMES;
		size_t first = r->n > TOP_RATE_FRAMES ? r->n % TOP_RATE_FRAMES : 0;
		double seconds = (double)(r->frame[last].at_us - r->frame[first].at_us) / US_PER_S;

		runs = (double)(r->frame[last].runs - r->frame[first].runs) / seconds;
		failures = (double)(r->frame[last].failures - r->frame[first].failures) / seconds;
	}
	/* When a node's row is removed its counts go with it. */
	snprintf(out, size, "%.1f runs/s, %.1f failures/s", runs > 0 ? runs : 0, failures > 0 ? failures : 0);
}

static const char *
more(const PGresult *o, const char *column)
{
	return *db_field(o, 0, column) == 't' ? "+" : "";
}

static void
put_sums(struct frame *f, const PGresult *o)
{
	const char *due_more = more(o, "due_more"), *oldest = db_field(o, 0, "oldest_late");
	bool bad = *oldest != '\0' || top_number(o, "nodes_up") == 0;
	char rates[100];

	put_line(f, bad ? RED : "",
	    "nodes %s up   running %s   due %s%s   late %s%s%s%s   parked %s%s   failing %s   waiting %s",
	    db_field(o, 0, "nodes_up"), db_field(o, 0, "running"), db_field(o, 0, "due"), due_more,
	    db_field(o, 0, "late"), due_more, *oldest != '\0' ? ", the oldest for " : "", oldest,
	    db_field(o, 0, "parked"), more(o, "parked_more"), db_field(o, 0, "failing"),
	    db_field(o, 0, "waiting"));
	rate_text(rates, sizeof rates, f->view->rates, o);
	put_line(f, "", "%s   last minute: %s%s runs, %s%s failed", rates, db_field(o, 0, "runs_1m"),
	    more(o, "runs_1m_more"), db_field(o, 0, "failures_1m"), more(o, "runs_1m_more"));
}

/* How many of the nodes' slots are in use, "3/8" in each row. */
static void
put_slots(struct frame *f, const PGresult *nodes)
{
	int col = PQfnumber(nodes, "busy"), busy = 0, slots = 0;
	AUTO_BUF struct buf bar = {0};

	for (int row = 0; row < PQntuples(nodes); row++) {
		int b = 0, s = 0;

		if (sscanf(db_text(nodes, row, col), "%d/%d", &b, &s) == 2) {
			busy += b;
			slots += s;
		}
	}
	if (slots == 0)
		return;
	spark_bar(&bar, busy, slots, BAR_COLUMNS);
	put_line(f, "", "slots     %s  %d of %d in use", buf_str(&bar), busy, slots);
}

/* One line of the last hour; nothing where there was nothing. */
static void
put_hour(struct frame *f, const PGresult *rates, const char *column, const char *label)
{
	AUTO_BUF struct buf line = {0};
	double most = spark_put(&line, rates, PQfnumber(rates, column), SPARK_COLUMNS, false);

	if (most > 0)
		put_line(f, "", "%-9s %s  %.3g/s", label, buf_str(&line), most);
}

struct section {
	const char *title; /* NULL: the table's own header says enough */
	const PGresult *rows;
	size_t want, got;
	bool reasons;
};

/* One row for each in turn, until no rows or no requests are left.  `overhead` of a section: its lines
 * besides its rows; a section that gets none is left out. */
static void
share_rows(struct section *s, size_t n, size_t left, size_t overhead)
{
	bool more_to_give = true;

	while (more_to_give) {
		more_to_give = false;
		for (size_t i = 0; i < n; i++) {
			size_t cost = s[i].got == 0 ? 1 + overhead : 1;

			if (s[i].got < s[i].want && cost <= left) {
				s[i].got++;
				left -= cost;
				more_to_give = true;
			}
		}
	}
}

/* Does all of a row but its last word fit? */
static bool
fits(const char *line, size_t n, size_t columns)
{
	while (n > 0 && line[n - 1] != ' ')
		n--;
	while (n > 0 && line[n - 1] == ' ')
		n--;
	return text_fit(line, columns) >= n;
}

/* Rows whose last column but one is a reason: what does not fit goes on in the next line. */
static void
put_reasons(struct frame *f, const struct section *s)
{
	size_t columns = f->view->screen.columns;
	struct screen wide = {0, f->view->screen.color};
	AUTO_BUF struct buf table = {0};
	const char *line;

	table_print(&table, s->rows, &wide);
	line = buf_str(&table);
	for (size_t i = 0; i < s->got + 1 && *line != '\0'; i++, line += strcspn(line, "\n") + 1) {
		size_t n = strcspn(line, "\n"), part = text_fit(line, columns);

		if (i == 0 || part >= n || fits(line, n, columns) || columns < 40) {
			put_line(f, i == 0 ? BOLD : "", "%.*s", (int)n, line);
			continue;
		}
		put_line(f, "", "%.*s", (int)part, line);
		for (size_t at = part; at < n; at += part) {
			part = text_fit(line + at, columns - 4);
			part = part > n - at ? n - at : part;
			put_line(f, "", "    %.*s", (int)part, line + at);
		}
	}
}

static void
put_section(struct frame *f, const struct section *s)
{
	AUTO_BUF struct buf table = {0};

	if (s->got == 0)
		return;
	put_line(f, "", "%s", "");
	put_line(f, BOLD, "%s", s->title);
	if (s->reasons && f->view->screen.columns > 0) {
		put_reasons(f, s);
		return;
	}
	table_print(&table, s->rows, &f->view->screen);
	put_lines(f, buf_str(&table), s->got + 1);
}

#define SECTIONS 4

/* Of several databases none may have answered. */
static size_t
rows_of(const PGresult *r)
{
	return r == NULL ? 0 : (size_t)PQntuples(r);
}

static void
put_lists(struct frame *f, const struct top_data *d)
{
	struct section sections[] = {
	    {"DATABASES", d->overview, d->all ? rows_of(d->overview) : 0, 0, false},
	    {"NODES", d->nodes, rows_of(d->nodes), 0, false},
	    {"RUNNING, the longest first", d->running, rows_of(d->running), 0, false},
	    {"LATE, the oldest first", d->late, rows_of(d->late), 0, true},
	};

	share_rows(sections, SECTIONS, f->left, 3);
	if (!d->all && sections[1].want == 0)
		put_line(f, "", "no node is up; start one: pgrab run");
	for (size_t i = 0; i < SECTIONS; i++)
		put_section(f, &sections[i]);
}

static void
put_drawings(struct frame *f, const struct top_data *d)
{
	if (f->view->rows > 0 && f->view->rows < SPARK_ROWS)
		return;
	put_slots(f, d->nodes);
	if (d->rates != NULL) {
		put_hour(f, d->rates, "per_second", "runs 1h");
		put_hour(f, d->rates, "failed_per_second", "failed 1h");
	}
}

void
top_show(struct buf *out, const struct top_data *data, const struct top_view *view)
{
	size_t help_rows = view->help != NULL && view->rows > 0 ? 1 : 0;
	struct frame f = {out, view, view->rows == 0 ? SIZE_MAX : view->rows - help_rows};

	if (data == NULL) {
		put_line(&f, BOLD, "pgrab top%s", view->note);
	} else if (data->all) {
		put_line(&f, BOLD, "pgrab top%s  all databases", view->note);
		if (*data->away != '\0')
			put_wrapped(&f, RED, data->away);
	} else {
		put_line(&f, BOLD, "pgrab top%s  %.19s UTC  %s", view->note,
		    db_field(data->overview, 0, "at"), db_field(data->overview, 0, "database"));
		put_sums(&f, data->overview);
		put_drawings(&f, data);
	}
	if (*view->trouble != '\0')
		put_wrapped(&f, RED, view->trouble);
	if (data != NULL)
		put_lists(&f, data);
	if (help_rows > 0) {
		while (f.left > 0)
			put_line(&f, "", "%s", "");
		f.left = 1;
		put_line(&f, "", "%s", view->help);
	}
}
