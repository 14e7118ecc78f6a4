/* The help text of a table: flags on the left, what they mean on the right, wrapped. */
#include <stdio.h>

#include "base/buf.h"
#include "base/option.h"

enum { HELP_COLUMNS = 100, HELP_LEFT_MAX = 36 };

const char *
option_metavar(const struct option_key *k)
{
	if (k->metavar != NULL)
		return k->metavar;
	switch (k->type) {
	case OPTION_TEXT: return "TEXT";
	case OPTION_INT: return "N";
	case OPTION_REAL: return "NUMBER";
	case OPTION_DURATION: return "DURATION";
	case OPTION_ENUM: return "WORD";
	case OPTION_FLAG: break;
	}
	return NULL;
}

/* "  -p, --poll DURATION" */
static void
put_left(struct buf *b, const struct option_key *k)
{
	const char *metavar = k->type != OPTION_FLAG ? option_metavar(k) : NULL;

	if (k->letter != 0)
		buf_addf(b, "  -%c, --", k->letter);
	else
		buf_adds(b, "      --");
	for (const char *p = k->name; *p != '\0'; p++)
		buf_addc(b, *p == '_' ? '-' : *p);
	if (metavar != NULL)
		buf_addf(b, " %s", metavar);
}

static size_t
left_column(const struct option_key *table)
{
	size_t widest = 0;

	for (; table->name != NULL; table++) {
		AUTO_BUF struct buf b = {0};

		put_left(&b, table);
		if (b.len > widest && b.len <= HELP_LEFT_MAX)
			widest = b.len;
	}
	return widest + 2;
}

static void
print_key(const struct option_key *k, size_t column)
{
	AUTO_BUF struct buf line = {0}, text = {0}, left = {0};

	buf_addf(&left, "%*s", (int)column, "");
	put_left(&line, k);
	if (line.len + 2 > column)
		buf_addf(&line, "\n%s", buf_str(&left));
	else
		buf_adds(&line, buf_str(&left) + line.len);
	buf_adds(&text, k->help != NULL ? k->help : "");
	if (k->fallback != NULL && k->type != OPTION_FLAG && !k->secret)
		buf_addf(&text, " (default %s)", k->fallback);
	buf_wrap(&line, buf_str(&text), HELP_COLUMNS, buf_str(&left));
	fputs(buf_str(&line), stdout);
}

void
option_print_help(const struct option_key *table)
{
	size_t column = left_column(table);

	for (; table->name != NULL; table++)
		print_key(table, column);
}
