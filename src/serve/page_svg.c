/* A run of a chain as a drawing: each link, or levels of links when there are too many. */
#include <stdlib.h>
#include <string.h>

#include "serve/escape.h"
#include "serve/page.h"

#define BOX_W     190
#define BOX_H     44
#define GAP_X     50
#define GAP_Y     16
#define LINKS_MAX 100 /* that are drawn each */
#define BOXES_MAX 40  /* of levels */
#define PER_ROW   5   /* of those */
#define NAME_MAX  24

struct graph {
	const PGresult *links; /* rows of serve_chain */
	const char *id, *run;
	int n;
};

struct place {
	int x, y;
};

static int
depth_of(const struct graph *g, int row)
{
	return (int)db_field_double(g->links, row, "depth");
}

/* The letters of one of our words, for a class. */
static void
put_class(struct buf *out, const char *word)
{
	for (; *word != '\0'; word++) {
		if ((*word >= 'a' && *word <= 'z') || *word == '_')
			buf_addc(out, *word);
	}
}

/* As much of a name as fits a box; never half a character. */
static void
put_name(struct buf *out, const char *name)
{
	AUTO_BUF struct buf cut = {0};
	int n = 0;

	for (; *name != '\0' && n <= NAME_MAX; name++) {
		n += (*name & 0xc0) != 0x80;
		if (n <= NAME_MAX)
			buf_addc(&cut, *name);
	}
	html_text(out, buf_str(&cut));
}

/* Where the link of that id is, or -1. */
static int
find_link(const PGresult *links, const char *id, size_t n)
{
	for (int row = 0; row < PQntuples(links); row++) {
		if (strlen(db_text(links, row, 0)) == n && strncmp(db_text(links, row, 0), id, n) == 0)
			return row;
	}
	return -1;
}

static void
put_edge(struct buf *o, struct place from, struct place to, bool critical)
{
	int x = from.x + BOX_W, y = from.y + BOX_H / 2, end_y = to.y + BOX_H / 2;

	buf_addf(o, "<path class=\"edge%s\" d=\"M%d %d C%d %d %d %d %d %d\"/>\n", critical ? " way" : "", x,
	    y, x + GAP_X / 2, y, to.x - GAP_X / 2, end_y, to.x, end_y);
}

static void
put_edges(struct buf *o, const struct graph *g, int row, const struct place *at)
{
	const char *parents = db_field(g->links, row, "parents");

	for (size_t n; *parents != '\0'; parents += n + (parents[n] == ',')) {
		n = strcspn(parents, ",");
		int p = find_link(g->links, parents, n);

		if (p >= 0)
			put_edge(o, at[p], at[row],
			    db_field_bool(g->links, row, "critical") &&
				db_field_bool(g->links, p, "critical"));
	}
}

static void
put_rect(struct buf *o, const char *class, struct place at)
{
	buf_adds(o, "<rect class=\"b-");
	put_class(o, class);
	buf_addf(o, "\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/>", at.x, at.y, BOX_W, BOX_H);
}

/* The second line of a box: "done 03:00:12 for 4 s". */
static void
put_when(struct buf *o, const struct graph *g, int row)
{
	const char *started = db_field(g->links, row, "started_at");

	buf_adds(o, db_field(g->links, row, "status"));
	if (strlen(started) >= 19)
		buf_addf(o, " %.8s", started + 11);
	if (*db_field(g->links, row, "seconds") != '\0')
		buf_addf(o, " for %.4g s", db_field_double(g->links, row, "seconds"));
}

static void
put_box(struct buf *o, const struct graph *g, int row, struct place at)
{
	const char *id = db_text(g->links, row, 0);

	buf_addf(o, "<a href=\"/tasks/%s\"><g class=\"link%s%s\">", id, strcmp(id, g->id) == 0 ? " here" : "",
	    db_field_bool(g->links, row, "critical") ? " way" : "");
	put_rect(o, db_field(g->links, row, "status"), at);
	buf_addf(o, "<text x=\"%d\" y=\"%d\">", at.x + 10, at.y + 18);
	put_name(o, db_field(g->links, row, "name"));
	buf_addf(o, "</text><text class=\"dim\" x=\"%d\" y=\"%d\">", at.x + 10, at.y + 35);
	put_when(o, g, row);
	buf_adds(o, "</text></g></a>\n");
}

static void
begin(struct buf *o, const struct graph *g, int width, int height)
{
	buf_addf(o,
	    "<div class=\"wide\"><svg class=\"graph\" width=\"%d\" height=\"%d\" role=\"group\" "
	    "aria-labelledby=\"graph-t graph-d\"><title id=\"graph-t\">The chain: %d tasks</title><desc "
	    "id=\"graph-d\">From left to right, in the order of their dependencies. The thick line is the "
	    "critical path.</desc>\n",
	    width, height, g->n);
}

static void
put_links(struct buf *o, const struct graph *g)
{
	int *count = calloc((size_t)g->n + 1, sizeof *count), deepest = 0, widest = 0;
	struct place *at = calloc((size_t)g->n + 1, sizeof *at);

	if (count == NULL || at == NULL)
		goto out;
	for (int row = 0; row < g->n; row++) {
		int depth = depth_of(g, row) < g->n ? depth_of(g, row) : g->n - 1;

		at[row] = (struct place){depth * (BOX_W + GAP_X) + 2, count[depth]++ * (BOX_H + GAP_Y) + 2};
		deepest = depth > deepest ? depth : deepest;
		widest = count[depth] > widest ? count[depth] : widest;
	}
	begin(o, g, (deepest + 1) * (BOX_W + GAP_X), widest * (BOX_H + GAP_Y) + 4);
	for (int row = 0; row < g->n; row++)
		put_edges(o, g, row, at);
	for (int row = 0; row < g->n; row++)
		put_box(o, g, row, at[row]);
	buf_adds(o, "</svg></div>\n");
out:
	free(count);
	free(at);
}

/* Levels that one box stands for. */
struct levels {
	int first, last, links, parked, running, done, critical; /* critical: a row, or -1 */
};

static void
count_link(const struct graph *g, int row, struct levels *l)
{
	const char *status = db_field(g->links, row, "status");

	l->links++;
	l->done += strcmp(status, "done") == 0;
	l->parked += strcmp(status, "parked") == 0 || strcmp(status, "failed") == 0;
	l->running += strcmp(status, "running") == 0;
	if (db_field_bool(g->links, row, "critical") &&
	    (l->critical < 0 || db_field_double(g->links, row, "seconds") >
				    db_field_double(g->links, l->critical, "seconds")))
		l->critical = row;
}

/* A box for the levels, with the longest of their links on the critical path. */
static void
put_levels(struct buf *o, const struct graph *g, const struct levels *l, struct place at)
{
	buf_addf(o, "<a href=\"/chains/%s?run=%s&amp;from=%d&amp;until=%d#links\"><g class=\"link\">", g->id,
	    g->run, l->first, l->last);
	put_rect(o,
	    l->parked > 0         ? "parked"
	    : l->running > 0      ? "running"
	    : l->done == l->links ? "done"
				  : "",
	    at);
	buf_addf(o, "<text x=\"%d\" y=\"%d\">%d links, %d done", at.x + 10, at.y + 18, l->links, l->done);
	if (l->parked > 0)
		buf_addf(o, ", %d failed", l->parked);
	buf_addf(o, "</text><text class=\"dim\" x=\"%d\" y=\"%d\">", at.x + 10, at.y + 35);
	if (l->critical >= 0) {
		put_name(o, db_field(g->links, l->critical, "name"));
		buf_addf(o, " %.4g s", db_field_double(g->links, l->critical, "seconds"));
	}
	buf_adds(o, "</text></g></a>\n");
}

static void
put_folded(struct buf *o, const struct graph *g)
{
	int deepest = depth_of(g, g->n - 1), per = deepest / BOXES_MAX + 1, boxes = deepest / per + 1,
	    row = 0;

	begin(o, g, PER_ROW * (BOX_W + GAP_X), ((boxes - 1) / PER_ROW + 1) * (BOX_H + GAP_Y) + 4);
	for (int box = 0; box < boxes; box++) {
		struct levels l = {box * per, (box + 1) * per - 1, 0, 0, 0, 0, -1};
		struct place at = {box % PER_ROW * (BOX_W + GAP_X) + 2, box / PER_ROW * (BOX_H + GAP_Y) + 2},
			     next = {at.x + BOX_W + GAP_X, at.y};

		for (; row < g->n && depth_of(g, row) <= l.last; row++)
			count_link(g, row, &l);
		put_levels(o, g, &l, at);
		if (box + 1 < boxes && (box + 1) % PER_ROW != 0)
			put_edge(o, at, next, true);
	}
	buf_adds(o,
	    "</svg></div>\n<p class=\"dim\">Too many links to draw each: a box stands for all of a level, "
	    "and names the longest of them on the critical path. It is a link to them.</p>\n");
}

void
page_graph(struct call *c, const PGresult *links, const char *id, const char *run)
{
	struct graph g = {links, id, run, PQntuples(links)};

	if (g.n > LINKS_MAX)
		put_folded(&c->out, &g);
	else if (g.n > 1)
		put_links(&c->out, &g);
}
