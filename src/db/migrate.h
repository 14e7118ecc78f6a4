/*
 * Installs and upgrades the schema.  Numbered files run once, one transaction each, their version row
 * inserted first, so that a concurrent migrator collides there and waits; views and functions (api/) are then
 * applied as a whole, in one transaction.
 */
#ifndef PGRAB_DB_MIGRATE_H
#define PGRAB_DB_MIGRATE_H

#include "base/rc.h"
#include "db/pg.h"

enum schema_state {
	SCHEMA_NONE, /* no pgrab.migration: nothing installed */
	SCHEMA_OLD,  /* this program brings migrations, or an api, that are not applied */
	SCHEMA_CURRENT,
	SCHEMA_NEWER,   /* made by a newer program, still compatible */
	SCHEMA_TOO_NEW, /* made by a newer program with a breaking migration: this program must not touch it
			 */
};

struct schema_status {
	enum schema_state state;
	int installed;    /* highest applied number, 0 = none */
	int known;        /* highest number in this program */
	bool api_current; /* the functions and views are those of this program */
};

CHECKED enum rc schema_status_read(struct db *db, struct schema_status *out, struct err *err);

/* Called for each step, before it is applied ("0001_task.sql", "api"); applied = false: it was there already.
 */
typedef void (*migrate_step_fn)(void *ctx, const char *name, bool applied);

/* Applies what is missing.  RC_BAD with text when the schema is too new, or the server refuses.  dry_run:
 * only reports. */
CHECKED enum rc schema_migrate(struct db *db, bool dry_run, migrate_step_fn step, void *ctx, struct err *err);

#endif
