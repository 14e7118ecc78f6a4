#include "cli/spark.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "db/pg.h"

#define HEIGHTS 8

/* As the C library would choose, without setting the locale of the program. */
static bool
has_blocks(void)
{
	static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG", NULL};

	for (const char *const *name = names; *name != NULL; name++) {
		const char *value = getenv(*name);
		size_t n = value == NULL ? 0 : strlen(value);

		if (n > 0)
			return (n >= 5 && strcasecmp(value + n - 5, "utf-8") == 0) ||
			       (n >= 4 && strcasecmp(value + n - 4, "utf8") == 0);
	}
	return false;
}

double
spark_put(struct buf *out, const PGresult *r, int col, size_t columns, bool newest_first)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char ascii[] = "_.-:=+*#";
	int n = PQntuples(r), first = n > (int)columns ? n - (int)columns : 0;
	bool nice = has_blocks();
	double most = 0;

	for (int i = first; i < n; i++) {
		double value = db_double(r, newest_first ? n - 1 - i : i, col);

		most = value > most ? value : most;
	}
	for (int i = first; i < n; i++) {
		int row = newest_first ? n - 1 - i : i;
		double value = db_double(r, row, col);
		int height = most > 0 && value > 0 ? (int)(value / most * (HEIGHTS - 1) + 0.5) : 0;

		if (PQgetisnull(r, row, col))
			buf_addc(out, ' ');
		else if (nice)
			buf_adds(out, blocks[height]);
		else
			buf_addc(out, ascii[height]);
	}
	return most;
}

void
spark_bar(struct buf *out, double part, double all, size_t columns)
{
	size_t full = all > 0 ? (size_t)(part / all * (double)columns + 0.5) : 0;
	bool nice = has_blocks();

	for (size_t i = 0; i < columns; i++)
		buf_adds(out, i < full ? (nice ? "█" : "#") : (nice ? "░" : "."));
}
