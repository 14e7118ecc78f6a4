/* The name of the schema that this process works in: `pgrab`, unless a setting names another one, for several
 * pgrabs in one database.  The texts of src/db/sql and migrations are written for `pgrab`; only here are they
 * changed to another name. */
#pragma once

#include "base/rc.h"

#define SCHEMA_DEFAULT  "pgrab"
#define SCHEMA_NAME_MAX 30 /* names derived from it (NAME_internal, NAME sql 4711) are longer */

/* RC_BAD: not a name that needs no quotes and leaves room for what is derived from
 * it; err says what one is. */
CHECKED enum rc schema_check(const char *name, struct err *err);

/* Uses this name from here on.  Call once, before there are threads and before the first sql_text().  Returns
 * what schema_check does. */
CHECKED enum rc schema_use(const char *name, struct err *err);

const char *schema_name(void);
const char *schema_flag(void); /* for a hint: "", or " --schema NAME" */

/* A copy of an SQL text that names schemas, roles, the channel and connections after schema_name(): each
 * `pgrab.`, `pgrab_internal`, `pgrab_tool`, `pgrab_sql`, `pgrab_owner` and so on, 'pgrab', "pgrab",
 * `schema pgrab`, and what begins with 'pgrab and a blank. */
char *schema_rewrite(const char *text);

/* The application_name of a connection: "pgrab heartbeat" with the schema's name instead.  A copy. */
char *schema_app(const char *app);
