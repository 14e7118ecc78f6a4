/* Looks up embedded SQL by name. */
#include "db/sql.h"

#include <assert.h>
#include <string.h>

#include "db/sql_embedded.h"

const char *
sql_text(const char *name)
{
	for (const struct sql_file *f = sql_queries; f->name != NULL; f++) {
		if (strcmp(f->name, name) == 0)
			return f->text;
	}
	assert(!"no such SQL text in src/db/sql");
	return NULL;
}
