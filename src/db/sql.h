/* The texts of src/db/sql/<name>.sql and of the migrations, embedded in the program when it is built. */
#pragma once

#include <stddef.h>

/* The text of src/db/sql/<name>.sql; aborts on a name that is not there (our bug). */
const char *sql_text(const char *name);

/* Rewrites all of them for schema_name().  Called by schema_use(), before there are threads. */
void sql_rewrite(void);

struct sql_file {
	const char *name; /* "0001_task.sql", "api/11_task.sql" */
	const char *text;
};

/* migrations/NNNN_name.sql in order, then migrations/api, all files, in order; each ended by a NULL name.  As
 * they were written, for the schema pgrab: see schema_rewrite(). */
extern const struct sql_file sql_migrations[];
extern const struct sql_file sql_api[];
extern const struct sql_file sql_queries[]; /* of src/db/sql: for sql_text() */
