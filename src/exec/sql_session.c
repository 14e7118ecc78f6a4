#include "exec/sql.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "core/progress.h"
#include "db/sql.h"
#include "db/store_node.h"

#define IDLE_US (60 * US_PER_S)

#define SWOLLEN ((size_t)1024 * 1024) /* a row that leaves this much behind */

#define OID_BOOLEAN 16

static void
drop(struct sql_session **s)
{
	if (*s == NULL)
		return;
	db_destroy(&(*s)->db);
	outbuf_destroy(&(*s)->out);
	free((*s)->owner);
	free(*s);
	*s = NULL;
}

void
sql_sessions_fini(struct sql_sessions *all)
{
	for (size_t i = 0; i < SQL_SESSIONS_MAX; i++)
		drop(&all->item[i]);
}

static const char *
dsn_of(const struct exec_env *env, const char *owner)
{
	if (strcmp(env->role, owner) == 0)
		return env->dsn;
	for (size_t i = 0; i < env->n_logins; i++) {
		if (strcmp(env->logins[i].owner, owner) == 0)
			return env->logins[i].dsn;
	}
	return NULL;
}

static struct sql_session *
create(const struct exec_env *env, const char *owner, const char *dsn, int64_t incarnation)
{
	struct sql_session *s = xcalloc(1, sizeof *s);
	char app[64];

	s->env = env;
	s->owner = xstrdup(owner);
	s->dsn = dsn;
	s->own = strcmp(env->role, owner) == 0;
	s->incarnation = incarnation;
	snprintf(app, sizeof app, "pgrab sql %" PRId64, incarnation);
	s->db = db_create(dsn, app, env->call_us);
	db_be(s->db, DB_OF_NODE | DB_PATIENT | DB_PLAIN);
	return s;
}

struct sql_session *
sql_session_of(struct sql_sessions *all, const char *owner, int64_t incarnation)
{
	const char *dsn = dsn_of(all->env, owner);
	int64_t now = clock_mono_us();
	struct sql_session **place = NULL;

	if (dsn == NULL)
		return NULL;
	for (size_t i = 0; i < SQL_SESSIONS_MAX; i++) {
		struct sql_session **s = &all->item[i];

		if (*s != NULL && ((*s)->incarnation != incarnation || (*s)->used_us < now - IDLE_US))
			drop(s);
		if (*s != NULL && strcmp((*s)->owner, owner) == 0) {
			(*s)->used_us = now;
			return *s;
		}
		if (place == NULL || (*place != NULL && (*s == NULL || (*s)->used_us < (*place)->used_us)))
			place = s;
	}
	drop(place);
	*place = create(all->env, owner, dsn, incarnation);
	(*place)->used_us = now;
	return *place;
}

void
sql_session_turn(struct sql_session *s, struct outbuf *out, const struct pgrab_host *host)
{
	s->out = out;
	s->host = host;
	s->rows = false;
}

void
sql_session_print(struct sql_session *s, const char *text, size_t len)
{
	outbuf_add(s->out, text, len);
	s->host->output(s->host->ctx, text, len);
}

void
sql_session_drop_row(void *ctx, const PGresult *res)
{
	struct sql_session *s = ctx;

	s->swollen = s->swollen || PQresultMemorySize(res) > SWOLLEN;
}

void
sql_session_row(void *ctx, const PGresult *res)
{
	struct sql_session *s = ctx;
	AUTO_BUF struct buf line = {0};

	sql_session_drop_row(s, res);

	if (s->rows)
		buf_adds(&line, "\n");
	s->rows = true;
	for (int i = 0; i < PQnfields(res); i++) {
		const char *value = PQgetvalue(res, 0, i);

		if (i > 0)
			buf_adds(&line, "|");
		if (PQftype(res, i) == OID_BOOLEAN && value[0] != '\0')
			buf_adds(&line, value[0] == 't' ? "true" : "false");
		else
			buf_add(&line, value, (size_t)PQgetlength(res, 0, i));
	}
	sql_session_print(s, buf_str(&line), line.len);
}

/* Notices, including those of RAISE, a line each; `pgrab: progress` is for those who watch the run. */
static void
take_notice(void *ctx, const PGresult *res)
{
	struct sql_session *s = ctx;
	const char *severity = PQresultErrorField(res, PG_DIAG_SEVERITY);
	const char *message = PQresultErrorField(res, PG_DIAG_MESSAGE_PRIMARY);
	struct progress_reader reader = {0};
	struct progress p;
	AUTO_BUF struct buf line = {0};

	if (s->out == NULL || message == NULL)
		return;
	(void)progress_read(&reader, message, strlen(message), &p);
	if (pgrab_host_has(s->host, progress) && progress_read(&reader, "\n", 1, &p)) {
		s->host->progress(s->host->ctx, p.percent, p.text);
		return;
	}
	buf_addf(&line, "%s:  %s\n", severity == NULL ? "NOTICE" : severity, message);
	sql_session_print(s, line.data, line.len);
}

enum rc
exec_login_check(
    struct db *db, const struct exec_env *env, const char *owner, struct login *out, struct err *err)
{
	enum rc rc = db_connect(db, err);

	if (rc == RC_OK)
		rc = store_login(db, out, err);
	if (rc != RC_OK)
		return rc;
	if (strcmp(out->role, owner) != 0)
		return err_set(err, RC_BAD,
		    "the connection for owner %s is one of role %s: sql tasks run as their owner or not at "
		    "all; fix its service or dsn",
		    owner, out->role);
	if (strcmp(out->database, env->database) != 0)
		return err_set(err, RC_BAD,
		    "the connection for owner %s is to database %s, and the tasks are in %s: name it in its "
		    "service or dsn",
		    owner, out->database, env->database);
	if (out->superuser && !env->superuser_ok)
		return err_set(err, RC_BAD,
		    "the role %s is a superuser, whose text could do anything to the server: give the tasks "
		    "another owner (or say allow_superuser = yes)",
		    owner);
	return RC_OK;
}

/* *login_out is set when the connection is a new one. */
static enum rc
connect_session(struct sql_session *s, struct login *login_out, struct err *err)
{
	enum rc rc;

	db_drop_dead(s->db);
	rc = db_connect(s->db, err);
	if (rc != RC_OK || s->generation == db_generation(s->db))
		return rc;
	rc = exec_login_check(s->db, s->env, s->owner, login_out, err);
	if (rc != RC_OK)
		db_disconnect(s->db);
	return rc;
}

enum rc
sql_session_ready(struct sql_session *s, struct err *err)
{
	struct login login;
	enum rc rc = connect_session(s, &login, err);

	if (rc != RC_OK && !s->own && s->env->login_failed != NULL)
		s->env->login_failed(s->env->login_ctx, s->owner);
	if (rc != RC_OK || s->generation == db_generation(s->db))
		return rc;
	PQsetNoticeReceiver(db_conn(s->db), take_notice, s);
	s->generation = db_generation(s->db);
	/* A pooler makes up the number by which a client would cancel. */
	s->pooled = login.pid != PQbackendPID(db_conn(s->db));
	snprintf(s->pid, sizeof s->pid, "%" PRId64, login.pid);
	snprintf(s->since, sizeof s->since, "%s", login.since);
	return RC_OK;
}

bool
sql_session_settled(struct sql_session *s, const PGresult *settled)
{
	const char *left = db_text(settled, 0, 0);

	if (left[0] != '\0')
		db_forget_names(s->db);
	return strcmp(left, "extension") != 0;
}

void
sql_session_clean(struct sql_session *s)
{
	AUTO_CLEAR PGresult *res = NULL;
	struct err ignored;

	if (db_conn(s->db) == NULL)
		return;
	if (PQtransactionStatus(db_conn(s->db)) != PQTRANS_IDLE &&
	    db_script(s->db, "rollback; select pg_catalog.pg_advisory_unlock_all()", &ignored) != RC_OK)
		db_disconnect(s->db);
	if (db_conn(s->db) == NULL)
		return;
	if (db_query(s->db, sql_text("sql_clean"), 0, NULL, &res, &ignored) != RC_OK || !db_bool(res, 0, 0))
		db_disconnect(s->db);
}

/* By the same login, because no other may have the right to end it; on another connection, with
 * a search path of our own. */
enum rc
sql_session_end_backend(struct sql_session *s, struct err *err)
{
	const char *params[] = {s->pid, s->since};
	AUTO_DB struct db *db = db_create(s->dsn, "pgrab sql-end", s->env->call_us);
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc;

	if (s->pid[0] == '\0') /* of others nothing is ended */
		return RC_OK;
	db_be(db, DB_OF_NODE | DB_PATIENT);
	db_by(db, clock_mono_us() + s->env->call_us);
	rc = db_query(db, sql_text("sql_end_backend"), 2, params, &res, err);
	if (rc == RC_OK && !db_bool(res, 0, 0))
		rc = err_set(err, RC_AGAIN, "backend %s has not ended", s->pid);
	return rc;
}
