/* The migrations as one text for people who apply them with a tool of their own; see schema_migrate. */
#include "db/migrate.h"

#include "base/alloc.h"
#include "base/version.h"
#include "db/schema.h"

static void
print_file(const struct sql_file *f, struct buf *out)
{
	AUTO_FREE char *text = schema_rewrite(f->text);

	buf_adds(out, text);
}

static void
print_numbered(const struct sql_file *f, struct buf *out)
{
	buf_addf(out,
	    "\n-- %s\ninsert into %s.migration (version, name, breaking, pgrab_version) values (%d, '%s', "
	    "%s, '%s');\n\n",
	    f->name, schema_name(), migration_number(f), f->name, migration_breaking(f) ? "true" : "false",
	    version_text());
	print_file(f, out);
}

static void
print_api(struct buf *out)
{
	char hash[API_HASH_MAX];

	buf_addf(out,
	    "\ndelete from %s.api;\ninsert into %s.api (hash, pgrab_version) values ('%s', '%s');\n",
	    schema_name(), schema_name(), api_hash(hash), version_text());
	for (const struct sql_file *f = sql_api; f->name != NULL; f++) {
		buf_addf(out, "\n-- %s\n", f->name);
		print_file(f, out);
	}
}

void
schema_print(int from, struct buf *out)
{
	buf_addf(out,
	    "-- The schema of pgrab %s.  Apply it in one transaction (psql -1), or not at all: `pgrab "
	    "migrate` does the same.\n",
	    version_text());
	if (from > 0)
		buf_addf(out, "-- For a schema that has migration %d.\n", from);
	buf_addf(out, "\n%s;\n\n%s;\n", sql_text("print_begin"), sql_text("migrate_tables"));
	for (const struct sql_file *f = sql_migrations; f->name != NULL; f++) {
		if (migration_number(f) > from)
			print_numbered(f, out);
	}
	if (from > 0)
		buf_addf(out, "\n%s;\n", sql_text("migrate_drop_api"));
	print_api(out);
	if (from > 0)
		buf_addf(out, "\n%s;\n", sql_text("migrate_grants"));
	buf_addf(out, "\n%s;\n\n%s;\n", sql_text("migrate_upkeep"), sql_text("print_end"));
}
