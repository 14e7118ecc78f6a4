/* Installs and upgrades the schema, in one transaction: the numbered files that are missing, then views and
 * functions (api/) as a whole. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/rc.h"
#include "db/pg.h"
#include "db/sql.h"

enum schema_state {
	SCHEMA_NONE, /* no table pgrab.migration: nothing installed */
	SCHEMA_OLD,  /* this program brings migrations, or an api, that are not applied */
	SCHEMA_CURRENT,
	SCHEMA_NEWER,   /* made by a newer program, still compatible */
	SCHEMA_TOO_NEW, /* made by a newer program with a breaking migration: this
			 * program must not touch it */
};
const char *schema_state_name(enum schema_state s); /* "none", "old", ... */

struct schema_status {
	enum schema_state state;
	int installed;    /* highest applied number, 0 = none */
	int known;        /* highest number in this program */
	bool api_current; /* the functions and views are those of this program */
};

CHECKED enum rc schema_status_read(struct db *db, struct schema_status *out, struct err *err);

/* Called for each step, before it is applied ("0001_task.sql", "api"); applied =
 * false: it was there already. */
typedef void (*migrate_step_fn)(void *ctx, const char *name, bool applied);

enum migrate_how {
	MIGRATE_MISSING, /* what is missing, or has changed */
	MIGRATE_DRY_RUN, /* only reports */
	MIGRATE_API,     /* the api even if it has not changed: a person may have replaced a function */
	MIGRATE_ROLES,   /* the same, with separate roles from here on: makes them, pgrab_owner owns all */
};

/* Applies what is missing.  RC_BAD with text when the schema is too new, or the server refuses.  RC_AGAIN: a
 * lock could not be taken.  Then nothing was changed. */
CHECKED enum rc
schema_migrate(struct db *db, enum migrate_how how, migrate_step_fn step, void *ctx, struct err *err);

/* Makes the roles, in transactions of its own, as the role that logged in: the schema may already have
 * another owner.  there: there is a schema, and a role with tasks of a kind is granted it; each grant is a
 * step. */
CHECKED enum rc migrate_roles(struct db *db, bool there, migrate_step_fn step, void *ctx, struct err *err);

/* To an error for want of a right: who may migrate.  there: there is a schema. */
void migrate_hint(struct err *err, bool there);

/* RC_BAD when nodes are up: a breaking migration is for a cluster at rest. */
CHECKED enum rc migrate_at_rest(struct db *db, struct err *err);

/* From here on nodes wait for locks of ours.  *until_us_out: on the monotonic clock, until when the least
 * patient should have to; then migrate_in_time() says RC_BAD. */
CHECKED enum rc migrate_hold_up(struct db *db, int64_t *until_us_out, struct err *err);
CHECKED enum rc migrate_in_time(int64_t until_us, struct err *err);
/* The answer to the whole: the server may have looked at the clock for us (migrate_hold_up). */
enum rc migrate_answer(enum rc rc, int64_t until_us, struct err *err);

/* The same as one SQL text, for other tools: everything, or what a schema at migration `from` lacks. */
void schema_print(int from, struct buf *out);

int migration_number(const struct sql_file *f);    /* 1 for "0001_task.sql" */
bool migration_breaking(const struct sql_file *f); /* its header says `-- Breaking: yes` */
#define API_HASH_MAX 40
const char *api_hash(char *buf); /* of all api files; buf: API_HASH_MAX bytes */
