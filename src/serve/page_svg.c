/* A chain as a drawing. */
#include <stdlib.h>
#include <string.h>

#include "serve/escape.h"
#include "serve/page.h"

#define BOX_W      180
#define BOX_H      44
#define GAP_X      60
#define GAP_Y      16
#define LAYERS_MAX 200

/* The letters of one of our words, for a class. */
static void
put_class(struct buf *out, const char *word)
{
	for (; *word != '\0'; word++) {
		if ((*word >= 'a' && *word <= 'z') || *word == '_')
			buf_addc(out, *word);
	}
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

struct place {
	int x, y;
};

static void
put_edges(struct buf *o, const PGresult *links, int row, const struct place *at)
{
	const char *parents = db_text(links, row, 4);

	for (size_t n; *parents != '\0'; parents += n + (parents[n] == ',')) {
		n = strcspn(parents, ",");
		int p = find_link(links, parents, n);

		if (p >= 0)
			buf_addf(o, "<path class=\"edge\" d=\"M%d %d C%d %d %d %d %d %d\"/>\n",
			    at[p].x + BOX_W, at[p].y + BOX_H / 2, at[p].x + BOX_W + GAP_X / 2,
			    at[p].y + BOX_H / 2, at[row].x - GAP_X / 2, at[row].y + BOX_H / 2, at[row].x,
			    at[row].y + BOX_H / 2);
	}
}

static void
put_box(struct buf *o, const PGresult *links, int row, const struct place *at, const char *id)
{
	buf_adds(o, "<a href=\"/tasks/");
	html_url(o, db_text(links, row, 0));
	buf_addf(o, "\"><g class=\"link%s\"><rect class=\"b-",
	    strcmp(db_text(links, row, 0), id) == 0 ? " here" : "");
	put_class(o, db_text(links, row, 2));
	buf_addf(o, "\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"5\"/><text x=\"%d\" y=\"%d\">",
	    at->x, at->y, BOX_W, BOX_H, at->x + 10, at->y + 18);
	html_text(o, db_text(links, row, 1));
	buf_addf(o, "</text><text class=\"dim\" x=\"%d\" y=\"%d\">", at->x + 10, at->y + 35);
	html_text(o, db_text(links, row, 2));
	buf_adds(o, "</text></g></a>\n");
}

/* links: id, name, status, depth, parents ("1,2"), in the order of depth; id: the task whose page it is. */
void
page_graph(struct call *c, const PGresult *links, const char *id)
{
	int n = PQntuples(links), count[LAYERS_MAX] = {0}, deepest = 0, widest = 0;
	struct place *at = calloc((size_t)n + 1, sizeof *at);
	struct buf *o = &c->out;

	if (n < 2 || at == NULL)
		goto out;
	for (int row = 0; row < n; row++) {
		int depth = (int)db_int64(links, row, 3);

		depth = depth < 0 ? 0 : depth >= LAYERS_MAX ? LAYERS_MAX - 1 : depth;
		at[row] = (struct place){depth * (BOX_W + GAP_X) + 2, count[depth]++ * (BOX_H + GAP_Y) + 2};
		deepest = depth > deepest ? depth : deepest;
		widest = count[depth] > widest ? count[depth] : widest;
	}
	buf_addf(o,
	    "<div class=\"wide\"><svg class=\"graph\" width=\"%d\" height=\"%d\" role=\"img\" "
	    "aria-label=\"The chain: %d tasks\">\n",
	    (deepest + 1) * (BOX_W + GAP_X), widest * (BOX_H + GAP_Y) + 4, n);
	for (int row = 0; row < n; row++)
		put_edges(o, links, row, at);
	for (int row = 0; row < n; row++)
		put_box(o, links, row, &at[row], id);
	buf_adds(o, "</svg></div>\n");
out:
	free(at);
}
