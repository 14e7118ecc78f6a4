/*
 * Migrations.  One transaction for each numbered file, its version row inserted first: a concurrent migrator waits at that row (and
 * before it at an advisory lock), then finds the work done and goes on.  The api is applied as a whole when its text differs from what was applied last.
 */
#include "db/migrate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "db/number.h"
#include "db/sql.h"

/* FNV-1a, 64 bits: only tells whether the text is the one applied last. */
static void
api_hash(char out[20])
{
	uint64_t h = UINT64_C(14695981039346656037);

	for (const struct sql_file *f = sql_api; f->name != NULL; f++) {
		for (const char *p = f->text; *p != '\0'; p++)
			h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
	}
	snprintf(out, 20, "%016llx", (unsigned long long)h);
}

static int
file_version(const struct sql_file *f)
{
	return atoi(f->name); /* check-words: the name is ours, NNNN_name.sql */
}

static int
highest_known(void)
{
	int v = 0;

	for (const struct sql_file *f = sql_migrations; f->name != NULL; f++)
		v = file_version(f);
	return v;
}

/* What stands in pgrab.migration; RC_OK with installed = 0 when there is no such table. */
enum rc
schema_status_read(struct db *db, struct schema_status *out, struct err *err)
{
	char known[NUMBER_MAX], hash[20];
	const char *params[] = {number(known, highest_known())};
	PGresult *res = NULL;
	enum rc rc = db_query(db, sql_text("schema_exists"), 0, NULL, &res, err);
	bool exists = rc == RC_OK && db_bool(res, 0, 0);

	memset(out, 0, sizeof *out);
	out->known = highest_known();
	PQclear(res);
	if (rc != RC_OK || !exists)
		return rc;
	rc = db_query(db, sql_text("schema_status"), 1, params, &res, err);
	if (rc == RC_OK) {
		out->installed = (int)db_int64(res, 0, 0);
		api_hash(hash);
		out->api_current = strcmp(db_text(res, 0, 2), hash) == 0;
		if (db_bool(res, 0, 1))
			out->state = SCHEMA_TOO_NEW;
		else if (out->installed > out->known)
			out->state = SCHEMA_NEWER;
		else if (out->installed < out->known || !out->api_current)
			out->state = out->installed == 0 ? SCHEMA_NONE : SCHEMA_OLD;
		else
			out->state = SCHEMA_CURRENT;
	}
	PQclear(res);
	return rc;
}

static enum rc
in_transaction(struct db *db, const char *body, struct err *err)
{
	struct buf sql = {0};
	enum rc rc;

	buf_addf(&sql, "begin isolation level read committed;\n%s\n%s\ncommit;", sql_text("schema_lock"), body);
	rc = db_script(db, buf_str(&sql), err);
	buf_fini(&sql);
	if (rc != RC_OK && db_conn(db) != NULL) {
		struct err ignored;

		if (db_script(db, "rollback", &ignored) != RC_OK)
			db_disconnect(db);
	}
	return rc;
}

static bool
is_breaking(const struct sql_file *f)
{
	return strstr(f->text, "\n-- Breaking: yes") != NULL;
}

/* One numbered file and its version row.  Somebody else's being faster is success. */
static enum rc
apply_file(struct db *db, const struct sql_file *f, struct err *err)
{
	struct buf body = {0};
	enum rc rc;

	buf_addf(&body, "insert into pgrab.migration (version, name, breaking) values (%d, '%s', %s);\n", file_version(f), f->name, is_breaking(f) ? "true" : "false");
	buf_adds(&body, f->text);
	rc = in_transaction(db, buf_str(&body), err);
	buf_fini(&body);
	if (rc == RC_BAD && strcmp(err->sqlstate, "23505") == 0)
		return RC_OK;
	if (rc != RC_OK)
		err_prefix(err, "migration %s", f->name);
	return rc;
}

static enum rc
apply_api(struct db *db, struct err *err)
{
	struct buf body = {0};
	char hash[20];
	enum rc rc;

	for (const struct sql_file *f = sql_api; f->name != NULL; f++)
		buf_addf(&body, "%s\n", f->text);
	api_hash(hash);
	buf_addf(&body, "delete from pgrab.api; insert into pgrab.api (hash) values ('%s');\n", hash);
	buf_adds(&body, "select count(*) from pgrab.upkeep();\n");
	rc = in_transaction(db, buf_str(&body), err);
	buf_fini(&body);
	if (rc != RC_OK)
		err_prefix(err, "views and functions");
	return rc;
}

static void
tell(migrate_step_fn step, void *ctx, const char *name, bool applied)
{
	if (step != NULL)
		step(ctx, name, applied);
}

enum rc
schema_migrate(struct db *db, bool dry_run, migrate_step_fn step, void *ctx, struct err *err)
{
	struct schema_status st;
	enum rc rc = schema_status_read(db, &st, err);

	if (rc == RC_OK && st.state == SCHEMA_TOO_NEW)
		rc = err_set(err, RC_BAD, "the schema (version %d) was made by a newer, incompatible pgrab; this program knows version %d: use the newer program", st.installed, st.known);
	if (rc == RC_OK && st.installed == 0 && !dry_run)
		rc = in_transaction(db, sql_text("schema_bootstrap"), err);
	for (const struct sql_file *f = sql_migrations; rc == RC_OK && f->name != NULL; f++) {
		bool applied = file_version(f) <= st.installed;

		tell(step, ctx, f->name, applied);
		if (!applied && !dry_run)
			rc = apply_file(db, f, err);
	}
	/* A newer schema has newer views: not ours to replace. */
	if (rc == RC_OK && st.state != SCHEMA_NEWER) {
		tell(step, ctx, "api", st.api_current);
		if (!st.api_current && !dry_run)
			rc = apply_api(db, err);
	}
	return rc;
}
