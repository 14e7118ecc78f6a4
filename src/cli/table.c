/* Column widths come from the data, so a result is gone through twice. */
#include "cli/table.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/texts.h"

#define GAP 2

/* Types of pg_type.dat that are numbers: int8, int2, int4, float4, float8, numeric. */
static bool
is_number(Oid type)
{
	return type == 20 || type == 21 || type == 23 || type == 700 || type == 701 || type == 1700;
}

static void
put_line(struct buf *out, struct buf *line, const struct screen *s, bool header)
{
	while (line->len > 0 && line->data[line->len - 1] == ' ')
		line->data[--line->len] = '\0';
	if (s->columns > 0)
		line->data[line->len = text_fit(buf_str(line), s->columns)] = '\0';
	if (header && s->color)
		buf_addf(out, "\033[1m%s\033[0m\n", buf_str(line));
	else
		buf_addf(out, "%s\n", buf_str(line));
	buf_reset(line);
}

static void
put_cell(struct buf *line, const char *text, size_t width, bool right, bool first)
{
	AUTO_BUF struct buf cell = {0};
	size_t have;

	text_line(&cell, text);
	have = text_width(buf_str(&cell));
	if (!first)
		buf_addf(line, "%*s", GAP, "");
	if (right)
		buf_addf(line, "%*s%s", (int)(width - have), "", buf_str(&cell));
	else
		buf_addf(line, "%s%*s", buf_str(&cell), (int)(width - have), "");
}

static size_t
cell_width(const char *text)
{
	AUTO_BUF struct buf cell = {0};

	text_line(&cell, text);
	return text_width(buf_str(&cell));
}

static void
measure(const PGresult *r, int rows, size_t *width)
{
	for (int col = 0; col < PQnfields(r); col++) {
		width[col] = cell_width(PQfname(r, col));
		for (int row = 0; row < rows; row++) {
			size_t w = cell_width(PQgetvalue(r, row, col));

			width[col] = w > width[col] ? w : width[col];
		}
	}
}

void
table_print(struct buf *out, const PGresult *r, const struct screen *s)
{
	table_print_some(out, r, INT64_MAX, s);
}

void
table_print_some(struct buf *out, const PGresult *r, int64_t max, const struct screen *s)
{
	int cols = PQnfields(r), rows = PQntuples(r) > max ? (int)max : PQntuples(r);
	AUTO_FREE size_t *width = xcalloc((size_t)cols + 1, sizeof *width);
	AUTO_BUF struct buf line = {0};

	measure(r, rows, width);
	for (int row = -1; row < rows; row++) {
		for (int col = 0; col < cols; col++) {
			const char *text = row < 0 ? PQfname(r, col) : PQgetvalue(r, row, col);

			put_cell(&line, text, width[col], is_number(PQftype(r, col)), col == 0);
		}
		put_line(out, &line, s, row < 0);
	}
}

static void
put_indented(struct buf *out, const char *text)
{
	AUTO_BUF struct buf block = {0};

	text_block(&block, text);
	for (char *line = block.data, *nl; line != NULL && (nl = strchr(line, '\n')) != NULL; line = nl + 1)
		buf_addf(out, "    %.*s\n", (int)(nl - line), line);
}

void
fields_print(struct buf *out, const PGresult *r, const char *const *skip)
{
	size_t width = 0;

	for (int row = 0; row < PQntuples(r); row++) {
		size_t w = text_width(PQgetvalue(r, row, 0));

		width = w > width && !text_among(PQgetvalue(r, row, 0), skip) ? w : width;
	}
	for (int row = 0; row < PQntuples(r); row++) {
		const char *name = PQgetvalue(r, row, 0), *value = PQgetvalue(r, row, 1);

		if (text_among(name, skip))
			continue;
		if (strchr(value, '\n') != NULL) {
			buf_addf(out, "%s\n", name);
			put_indented(out, value);
			continue;
		}
		buf_addf(out, "%-*s  ", (int)width, name);
		text_line(out, value);
		buf_addc(out, '\n');
	}
}
