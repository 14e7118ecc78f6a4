/*
 * The name of the schema that this process works in: `pgrab`, unless a setting names another one, for several
 * pgrabs in one database.  The texts of src/db/sql and migrations are written for `pgrab`; here, and nowhere
 * else, they are made to say another name.
 */
#ifndef PGRAB_DB_SCHEMA_H
#define PGRAB_DB_SCHEMA_H

#include "base/rc.h"

#define SCHEMA_DEFAULT  "pgrab"
#define SCHEMA_NAME_MAX 30 /* what is made of it (NAME_internal, NAME sql 4711) is longer */

/* RC_BAD says what a name is: one that needs no quotes, and leaves room for what is made of it. */
CHECKED enum rc schema_check(const char *name, struct err *err);

/* From here on.  Once, before there are threads and before the first sql_text(); what schema_check says. */
CHECKED enum rc schema_use(const char *name, struct err *err);

const char *schema_name(void);
const char *schema_flag(void); /* for a hint: "", or " --schema NAME" */

/* A copy of an SQL text that names schemas, roles, the channel and connections after schema_name(): each
 * `pgrab.`, `pgrab_internal`, `pgrab_sql`, `pgrab_owner` and so on, 'pgrab', "pgrab", `schema pgrab`, and
 * what begins with 'pgrab and a blank. */
char *schema_rewrite(const char *text);

/* The application_name of a connection: "pgrab heartbeat" with the schema's name instead.  A copy. */
char *schema_app(const char *app);

#endif
