/*
 * One transaction for all that a version brings, so that no node ever sees the functions of one version on
 * the tables of another.  It begins with a lock on pgrab.migration, and each file with the row that says
 * "applied", so that of two migrators the second waits, finds the rows and goes on.
 *
 * Locks on tables are waited for only briefly (lock_timeout in migrate_begin.sql): a session that comes
 * after us waits behind us.  If one is not to be had all is rolled back, which lets those behind us
 * through, and tried again.
 */
#include "db/migrate.h"

#include <assert.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/version.h"
#include "core/backoff.h"
#include "db/schema.h"
#include "db/sql_split.h"

#define LOCK_TRIES         30
#define LOCK_PAUSE_US      (2 * US_PER_S) /* at most, and at least half of it: others get through */
#define SERVER_VERSION_MIN 150000
#define STATEMENTS_MAX     2000 /* in one file */

struct migrator {
	struct db *db;
	enum migrate_how how;
	migrate_step_fn step;
	void *ctx;
	const char *at;   /* the file that is being applied */
	int nth, said;    /* its number, and of how many files the caller was told */
	int64_t until_us; /* see migrate_hold_up() */
	struct err *err;
};

const char *
schema_state_name(enum schema_state s)
{
	switch (s) {
	case SCHEMA_NONE: return "none";
	case SCHEMA_OLD: return "old";
	case SCHEMA_CURRENT: return "current";
	case SCHEMA_NEWER: return "newer";
	case SCHEMA_TOO_NEW: return "too_new";
	default: abort();
	}
}

int
migration_number(const struct sql_file *f)
{
	return (int)strtol(f->name, NULL, 10);
}

bool
migration_breaking(const struct sql_file *f)
{
	static const char mark[] = "-- Breaking: yes";

	/* The header: all comment lines at the top. */
	for (const char *line = f->text; line != NULL && strncmp(line, "--", 2) == 0;) {
		if (strncmp(line, mark, sizeof mark - 1) == 0)
			return true;
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	return false;
}

/* FNV-1a: tells texts apart, protects against nothing. */
static uint64_t
hash_text(uint64_t h, const char *s)
{
	do {
		h = (h ^ (unsigned char)*s) * UINT64_C(1099511628211);
	} while (*s++ != '\0');
	return h;
}

const char *
api_hash(char *buf)
{
	uint64_t h = UINT64_C(14695981039346656037);
	size_t bytes = 0;

	for (const struct sql_file *f = sql_api; f->name != NULL; f++) {
		h = hash_text(hash_text(h, f->name), f->text);
		bytes += strlen(f->text);
	}
	snprintf(buf, API_HASH_MAX, "%016" PRIx64 "-%zu", h, bytes);
	return buf;
}

/* "1.2.3" as a number that compares. */
static int64_t
version_rank(const char *s)
{
	int64_t rank = 0;

	for (int i = 0; i < 3; i++) {
		char *end;

		rank = rank * 100000 + strtol(s, &end, 10);
		s = *end == '.' ? end + 1 : end;
	}
	return rank;
}

static int
highest_known(void)
{
	int known = 0;

	for (const struct sql_file *f = sql_migrations; f->name != NULL; f++)
		known = migration_number(f);
	return known;
}

static int
count_known(void)
{
	int n = 0;

	while (sql_migrations[n].name != NULL)
		n++;
	return n;
}

static enum schema_state
judge(const struct schema_status *st, const PGresult *r)
{
	bool all_known = db_int64(r, 0, 1) == count_known();
	bool newer_api = !st->api_current && version_rank(db_text(r, 0, 4)) > version_rank(version_text());

	if (db_bool(r, 0, 2))
		return SCHEMA_TOO_NEW;
	if (all_known && (st->installed > st->known || newer_api))
		return SCHEMA_NEWER;
	return all_known && st->api_current ? SCHEMA_CURRENT : SCHEMA_OLD;
}

enum rc
schema_status_read(struct db *db, struct schema_status *out, struct err *err)
{
	char known[NUMBER_MAX], hash[API_HASH_MAX];
	const char *params[] = {known};
	PGresult *r = NULL;
	enum rc rc = db_query(db, sql_text("migrate_there"), 0, NULL, &r, err);

	memset(out, 0, sizeof *out);
	out->known = highest_known();
	if (rc != RC_OK || !db_bool(r, 0, 0))
		goto out; /* SCHEMA_NONE */
	PQclear(r);
	db_number(known, out->known);
	rc = db_query(db, sql_text("migrate_status"), 1, params, &r, err);
	if (rc != RC_OK)
		goto out;
	out->installed = (int)db_int64(r, 0, 0);
	out->api_current = strcmp(db_text(r, 0, 3), api_hash(hash)) == 0;
	out->state = judge(out, r);
out:
	PQclear(r);
	return rc;
}

/* Of each file once, however often it is tried. */
static void
report(struct migrator *m, const char *name, bool applied)
{
	m->at = name;
	if (++m->nth > m->said && m->step != NULL)
		m->step(m->ctx, name, applied);
	m->said = m->nth > m->said ? m->nth : m->said;
}

/* Each statement is a query of its own, because servers that forward statements to others require
 * it; all are sent in one go. */
static enum rc
apply_text(struct migrator *m, const char *text)
{
	AUTO_FREE struct sql_part *part = xcalloc(STATEMENTS_MAX, sizeof *part);
	AUTO_FREE char *copy = schema_rewrite(text);
	size_t n = sql_split(copy, part, STATEMENTS_MAX), failed;
	AUTO_FREE struct db_step *step = xcalloc(n, sizeof *step);

	assert(n > 0 && n <= STATEMENTS_MAX);
	for (size_t i = 0; i < n; i++) {
		copy[part[i].start - copy + (ptrdiff_t)part[i].len] = '\0'; /* a semicolon, or the end */
		step[i].sql = part[i].start;
	}
	return db_steps(m->db, step, n, -1, 0, NULL, &failed, m->err);
}

/* Begins the transaction, holding the migrators' lock. */
static enum rc
begin(struct migrator *m)
{
	enum rc rc = db_connect(m->db, m->err);

	if (rc == RC_OK)
		rc = apply_text(m, sql_text("migrate_begin"));

	if (rc == RC_AGAIN && strcmp(m->err->sqlstate, "55P03") == 0)
		err_set(
		    m->err, RC_AGAIN, "another migration has been running for two minutes; try again later");
	return rc == RC_OK ? db_script(m->db, sql_text("migrate_tables"), m->err) : rc;
}

/* Ends the transaction.  An error of the rollback says nothing new. */
static enum rc
end(struct migrator *m, enum rc rc)
{
	struct err ignored;

	if (rc == RC_OK)
		return db_script(m->db, "commit", m->err);
	if (db_conn(m->db) != NULL && db_script(m->db, "rollback", &ignored) != RC_OK)
		db_disconnect(m->db);
	return rc;
}

/* Writes the row that says "applied".  *new_out = false: it was there. */
static enum rc
note(struct migrator *m, const char *sql, int n, const char *const *params, bool *new_out)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = db_query(m->db, sql, n, params, &r, m->err);

	*new_out = rc == RC_OK && PQntuples(r) > 0;
	return rc;
}

/* *any_out: true if it was not there. */
static enum rc
apply_numbered(struct migrator *m, const struct sql_file *f, bool *any_out)
{
	char version[NUMBER_MAX];
	const char *params[] = {version, f->name, migration_breaking(f) ? "t" : "f", version_text()};
	bool new = false;
	enum rc rc;

	db_number(version, migration_number(f));
	rc = note(m, sql_text("migrate_note"), 4, params, &new);
	if (rc == RC_OK)
		report(m, f->name, new);
	if (rc != RC_OK || !new)
		return rc;
	*any_out = true;
	if (migration_breaking(f) && migration_number(f) > 1)
		rc = migrate_at_rest(m->db, m->err);
	if (rc == RC_OK)
		rc = apply_text(m, f->text);
	return rc == RC_OK ? migrate_in_time(m->until_us, m->err) : rc;
}

/* anew: even if its text is the same. */
static enum rc
apply_api(struct migrator *m, bool anew)
{
	char hash[API_HASH_MAX];
	const char *params[] = {api_hash(hash), version_text(), anew ? "t" : "f"};
	bool new = false;
	enum rc rc = note(m, sql_text("migrate_note_api"), 3, params, &new);

	if (rc == RC_OK)
		report(m, "api", new);
	if (rc == RC_OK && new)
		rc = db_script(m->db, sql_text("migrate_drop_api"), m->err);
	if (rc == RC_OK && new && m->how == MIGRATE_ROLES)
		rc = db_script(m->db, sql_text("migrate_hand_over"), m->err);
	for (const struct sql_file *f = sql_api; rc == RC_OK && new && f->name != NULL; f++) {
		rc = apply_text(m, f->text);
		if (rc != RC_OK)
			err_prefix(m->err, "%s", f->name);
		else
			rc = migrate_in_time(m->until_us, m->err);
	}
	if (rc == RC_OK && new)
		rc = db_script(m->db, sql_text("migrate_grants"), m->err);
	return rc == RC_OK && new ? db_script(m->db, sql_text("migrate_upkeep"), m->err) : rc;
}

static enum rc
apply_version(struct migrator *m, bool there)
{
	bool anew = m->how != MIGRATE_MISSING;
	enum rc rc = begin(m);

	m->at = NULL;
	m->nth = 0;
	m->until_us = CLOCK_NEVER;
	if (rc == RC_OK && there)
		rc = migrate_hold_up(m->db, &m->until_us, m->err);
	for (const struct sql_file *f = sql_migrations; rc == RC_OK && f->name != NULL; f++)
		rc = apply_numbered(m, f, &anew);
	if (rc == RC_OK)
		rc = apply_api(m, anew);
	return end(m, migrate_answer(rc, m->until_us, m->err));
}

static bool
locked(const struct migrator *m, enum rc rc)
{
	return rc == RC_RACE || (rc == RC_AGAIN && strcmp(m->err->sqlstate, "55P03") == 0);
}

/* Tried again while a lock of another session is in the way. */
static enum rc
apply_all(struct migrator *m, bool there)
{
	enum rc rc = m->how == MIGRATE_ROLES ? migrate_roles(m->db, there, m->step, m->ctx, m->err) : RC_OK;
	enum rc done = rc == RC_OK ? RC_RACE : rc;
	struct backoff pause;

	backoff_init(&pause, LOCK_PAUSE_US, LOCK_PAUSE_US, (uint64_t)clock_mono_us());
	for (int i = 0; i < LOCK_TRIES && locked(m, done); i++) {
		if (i > 0)
			poll(NULL, 0, (int)(backoff_next_us(&pause) / US_PER_MS));
		done = apply_version(m, there);
	}
	if (rc != RC_OK || done == RC_OK)
		return done;
	if (locked(m, done))
		done = err_set(m->err, RC_AGAIN,
		    "a long transaction holds a lock on pgrab's tables (%d tries); end it, or try again "
		    "later",
		    LOCK_TRIES);
	else if (done == RC_UNKNOWN)
		err_prefix(m->err, "it may or may not have been applied, run migrate again");
	if (m->at != NULL)
		err_prefix(m->err, "migration %s", m->at);
	migrate_hint(m->err, there);
	return done;
}

/* Reports what would be done, if anything. */
static enum rc
report_all(struct migrator *m, const struct schema_status *st)
{
	enum rc rc = RC_OK;

	for (const struct sql_file *f = sql_migrations; rc == RC_OK && f->name != NULL; f++) {
		const char *params[] = {NUMBER(migration_number(f))};
		bool there = false;

		if (st->state != SCHEMA_NONE)
			rc = note(m, sql_text("migrate_has"), 1, params, &there);
		if (rc == RC_OK)
			report(m, f->name, !there);
	}
	if (rc == RC_OK)
		report(m, "api", st->state != SCHEMA_NEWER && !st->api_current);
	return rc;
}

static enum rc
check_server(struct db *db, struct err *err)
{
	int version = PQserverVersion(db_conn(db));

	if (version < SERVER_VERSION_MIN)
		return err_set(err, RC_BAD, "the server is PostgreSQL %d; pgrab needs %d or later",
		    version / 10000, SERVER_VERSION_MIN / 10000);
	return RC_OK;
}

enum rc
schema_migrate(struct db *db, enum migrate_how how, migrate_step_fn fn, void *ctx, struct err *err)
{
	struct err mine;
	struct migrator m = {.db = db, .how = how, .step = fn, .ctx = ctx, .err = err == NULL ? &mine : err};
	struct schema_status st;
	enum rc rc = schema_status_read(db, &st, m.err);

	if (rc != RC_OK)
		migrate_hint(m.err, true);
	else
		rc = check_server(db, m.err);
	if (rc != RC_OK)
		return rc;
	if (st.state == SCHEMA_TOO_NEW)
		return err_set(m.err, RC_BAD,
		    "the schema (version %d) was made by a newer, incompatible pgrab; this program knows "
		    "version %d: upgrade the program",
		    st.installed, st.known);
	if (how == MIGRATE_ROLES && st.state == SCHEMA_NEWER)
		return err_set(err, RC_BAD, "a newer pgrab made the schema: give it its roles with that one");
	if (how == MIGRATE_DRY_RUN || st.state == SCHEMA_NEWER)
		return report_all(&m, &st);
	return apply_all(&m, st.state != SCHEMA_NONE);
}
