/* Looks up embedded SQL by name. */
#include "db/sql.h"

#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "db/schema.h"

static const struct sql_file *queries = sql_queries;

void
sql_rewrite(void)
{
	struct sql_file *all;
	size_t n = 0;

	while (sql_queries[n].name != NULL)
		n++;
	all = xcalloc(n + 1, sizeof *all); /* for as long as the process lives */
	for (size_t i = 0; i < n; i++)
		all[i] = (struct sql_file){sql_queries[i].name, schema_rewrite(sql_queries[i].text)};
	queries = all;
}

const char *
sql_text(const char *name)
{
	for (const struct sql_file *f = queries; f->name != NULL; f++) {
		if (strcmp(f->name, name) == 0)
			return f->text;
	}
	assert(!"no such SQL text in src/db/sql");
	return NULL;
}
