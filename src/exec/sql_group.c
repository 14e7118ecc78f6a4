/*
 * Several runs of kind sql in one transaction.  Begin, commit and finish cost several times what a short text
 * does, and so are paid once:
 *
 *   begin; for each: savepoint, fence, text, settle, release; the finish of all; commit
 *
 * All that goes wrong has one answer, because a run that leaves the group has done nothing, and runs by
 * itself as if it had never been in it: a text that fails, or takes longer than SQL_GROUP_US, is rolled back
 * to its savepoint; when the finish of all fails (one was cancelled, its row is locked, ...), or a member is
 * told to stop, all of it is rolled back.
 *
 * That bound is what texts of a group may cost each other: locks are held until the commit of the last one.
 * It is far above a text that is worth grouping (a transaction of its own costs about half a millisecond),
 * and below PostgreSQL's deadlock_timeout (1 s): groups that wait for each other's locks part before that is
 * a deadlock.
 */
#include "exec/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "db/sql.h"

struct member {
	const struct pgrab_run *run; /* borrowed, like host */
	const struct pgrab_host *host;
	struct outbuf *out; /* what it has printed */
	int64_t begun_us, ended_us;
};

struct sql_group {
	struct sql_worker *worker;   /* borrowed */
	struct sql_session *session; /* NULL: nothing was executed yet */
	struct member *member;
	size_t n, max;
	int watch_fd; /* readable when a member must stop, or the timer has run out */
	int timer_fd;
	int64_t begun_us;
	bool closed; /* it takes no more */
	bool broken; /* nothing of it may be committed */
	bool stuck;  /* and its backend may still be at work: so its runs are not over */
	bool clean;  /* the session, for sure */
};

static void
watch(const struct sql_group *g, int fd)
{
	struct epoll_event e = {.events = EPOLLIN};

	if (epoll_ctl(g->watch_fd, EPOLL_CTL_ADD, fd, &e) != 0 && errno != EEXIST)
		abort();
}

struct sql_group *
sql_group_begin(void *state, size_t max)
{
	struct sql_group *g = xcalloc(1, sizeof *g);

	g->worker = state;
	g->max = max;
	g->member = xcalloc(max, sizeof *g->member);
	g->clean = true;
	g->watch_fd = epoll_create1(EPOLL_CLOEXEC);
	g->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	g->closed = g->watch_fd < 0 || g->timer_fd < 0; /* out of descriptors: each by itself */
	if (!g->closed)
		watch(g, g->timer_fd);
	return g;
}

bool
sql_group_takes_more(const struct sql_group *g)
{
	return !g->closed;
}

/* 0: none. */
static void
set_timer(const struct sql_group *g, int64_t us)
{
	struct itimerspec t = {.it_value = {.tv_nsec = us * 1000}};

	if (timerfd_settime(g->timer_fd, 0, &t, NULL) != 0)
		abort();
}

static bool
must_stop(const struct pgrab_host *host)
{
	return host->stop(host->ctx) != PGRAB_STOP_NONE;
}

static bool
any_stops(const struct sql_group *g)
{
	for (size_t i = 0; i < g->n; i++) {
		if (must_stop(g->member[i].host))
			return true;
	}
	return false;
}

/* The connection is lost before anything was committed, and never will be: but its backend may go on for a
 * while, and hold what it has locked. */
static void
lose(struct sql_group *g, const struct sql_work *k)
{
	g->broken = true;
	g->stuck = !sql_end_backend(k);
}

/* Nothing of the text is left in the transaction, and what it has done to the session besides is settled: it
 * may have prepared something under the name of our finish. */
static enum rc
roll_back(struct sql_group *g, const struct sql_work *k)
{
	const char *settle[] = {k->incarnation};
	const struct db_step step[] = {{.sql = "rollback to savepoint pgrab_text"},
	    {.sql = sql_text("sql_settle"), .n_params = 1, .params = settle},
	    {.sql = "release savepoint pgrab_text"}};
	PGresult *res[3];
	struct err ignored;
	size_t failed;
	enum rc rc = db_steps(g->session->db, step, 3, -1, 0, res, &failed, &ignored);

	if (rc == RC_OK)
		g->clean = g->clean && sql_session_settled(g->session, res[1]);
	for (size_t i = 0; i < 3; i++)
		PQclear(res[i]);
	return rc;
}

static void
take_back(struct sql_group *g, const struct sql_work *k, enum rc rc)
{
	g->closed = true;
	if (rc != RC_UNKNOWN && db_conn(g->session->db) != NULL)
		rc = roll_back(g, k);
	if (rc == RC_UNKNOWN || db_conn(g->session->db) == NULL)
		lose(g, k);
	else
		g->broken = rc != RC_OK; /* it had not come to the savepoint */
}

/* For the finish of all: one of their rows may be locked. */
#define FINISH_US (4 * SQL_GROUP_US)

#define AROUND 5 /* begin, savepoint, fence; settle, release */

/* As one transaction of its own would; see carry_out() in sql.c. */
static enum rc
carry_out(struct sql_group *g, struct sql_work *k, struct err *err)
{
	const struct sql_text *t = &k->text;
	struct sql_session *s = g->session;
	AUTO_FREE struct db_step *step = xcalloc(t->n + AROUND, sizeof *step);
	AUTO_FREE PGresult **res = xcalloc(t->n + AROUND, sizeof(PGresult *));
	const char *open[4], *last[3], *settle[] = {k->incarnation};
	AUTO_ARRAY struct pgarray params = {0};
	size_t n = 0, end, failed;
	enum rc rc;

	if (g->n == 0)
		step[n++] = (struct db_step){.sql = "begin isolation level read committed"};
	step[n++] = (struct db_step){.sql = "savepoint pgrab_text"};
	step[n++] = sql_open_step(k, open);
	sql_text_steps(k, &step[n], last, NUMBER(OUTBUF_LIMIT), &params);
	end = n + t->n;
	step[end] = (struct db_step){.sql = sql_text("sql_settle"), .n_params = 1, .params = settle};
	step[end + 1] = (struct db_step){.sql = "release savepoint pgrab_text"};
	set_timer(g, SQL_GROUP_US);
	rc = db_steps(s->db, step, end + 2, g->watch_fd, g->worker->env->kill_grace_us, res, &failed, err);
	set_timer(g, 0);
	if (rc == RC_OK && step[end - 1].row == NULL)
		sql_session_print(s, db_text(res[end - 1], 0, 0), (size_t)PQgetlength(res[end - 1], 0, 0));
	if (rc == RC_OK)
		g->clean = g->clean && sql_session_settled(s, res[end]);
	for (size_t i = 0; i < end + 2; i++)
		PQclear(res[i]);
	return rc;
}

static bool
execute(struct sql_group *g, struct sql_work *k)
{
	struct member *m = &g->member[g->n];
	struct err err = {0};
	enum rc rc;

	*m = (struct member){
	    .run = k->run, .host = k->host, .out = outbuf_create(OUTBUF_LIMIT), .begun_us = clock_mono_us()};
	watch(g, k->host->stop_fd);
	sql_session_turn(g->session, m->out, k->host);
	rc = carry_out(g, k, &err);
	sql_session_turn(g->session, NULL, k->host);
	m->ended_us = clock_mono_us();
	if (rc != RC_OK)
		take_back(g, k, rc);
	if (rc != RC_OK && !g->stuck) {
		outbuf_destroy(&m->out);
		return false;
	}
	g->n++;
	if (g->stuck)
		return true;
	g->closed =
	    !g->clean || g->session->swollen || g->n == g->max || m->ended_us - g->begun_us > SQL_GROUP_US;
	return true;
}

/* Behind a pooler only the backend itself can say who it is, and that would have to be asked first. */
static bool
get_ready(struct sql_group *g, const struct pgrab_run *run)
{
	struct sql_session *s = sql_session_of(&g->worker->sessions, run->owner, run->incarnation);
	struct err ignored;

	if (s == NULL || sql_session_ready(s, &ignored) != RC_OK || s->pooled)
		return false;
	s->swollen = false;
	g->session = s;
	g->begun_us = clock_mono_us();
	return true;
}

static bool
may_join(const struct sql_group *g, const struct pgrab_run *run)
{
	const struct sql_session *s = g->session;

	return s == NULL || (s->incarnation == run->incarnation && strcmp(s->owner, run->owner) == 0);
}

bool
sql_group_add(struct sql_group *g, const struct pgrab_run *run, const struct pgrab_host *host)
{
	struct pgrab_result ignored = {.size = sizeof ignored};
	struct sql_work k;
	bool joins = false;

	sql_work_make(&k, g->worker, run, host, &ignored);
	if (any_stops(g) || must_stop(host) || !may_join(g, run) ||
	    (g->session == NULL && !get_ready(g, run))) {
		g->closed = true;
		return false;
	}
	k.session = g->session;
	if (!sql_has_steps(run) && sql_text_take(run, &k.text, &ignored) && k.text.transaction)
		joins = execute(g, &k);
	sql_text_fini(&k.text);
	return joins;
}

static int
by_id(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	return (x->run->task_id > y->run->task_id) - (x->run->task_id < y->run->task_id);
}

/* Rows are locked in the order of their ids. */
static enum rc
finish(struct sql_group *g, struct err *err)
{
	struct sql_session *s = g->session;
	const struct exec_env *env = g->worker->env;
	AUTO_ARRAY struct pgarray ids = {0}, versions = {0}, began = {0}, ended = {0}, outputs = {0},
				  cut = {0}, proofs = {0};
	int64_t now = clock_mono_us();
	struct db_step step = {.ours = true};
	size_t failed;
	enum rc rc;

	qsort(g->member, g->n, sizeof *g->member, by_id);
	for (size_t i = 0; i < g->n; i++) {
		const struct member *m = &g->member[i];
		AUTO_FREE char *output = outbuf_text(m->out);

		pgarray_int(&ids, m->run->task_id);
		pgarray_int(&versions, m->run->version);
		pgarray_int(&began, now - m->begun_us);
		pgarray_int(&ended, now - m->ended_us);
		pgarray_text(&outputs, output[0] == '\0' ? NULL : output);
		pgarray_text(&cut, outbuf_truncated(m->out) ? "t" : "f");
		pgarray_text(&proofs, m->run->proof);
	}
	const char *own[] = {pgarray_str(&ids), pgarray_str(&versions), NUMBER(s->incarnation),
	    pgarray_str(&began), pgarray_str(&ended), pgarray_str(&outputs), pgarray_str(&cut),
	    NUMBER(env->node_id == NULL ? 0 : atomic_load(env->node_id)), env->node_name};
	const char *others[] = {own[0], own[1], own[3], own[4], own[5], own[6], pgarray_str(&proofs)};

	step.sql = sql_text(s->own ? "sql_finish_group" : "sql_finish_group_owner");
	step.n_params = s->own ? 9 : 7;
	step.params = s->own ? own : others;
	set_timer(g, FINISH_US);
	rc = db_steps(s->db, &step, 1, g->watch_fd, env->kill_grace_us, NULL, &failed, err);
	set_timer(g, 0);
	return rc;
}

/* What a deferred trigger has left that fired at the commit is cleaned away behind it, as in sql.c. */
static enum rc
commit(struct sql_group *g, struct err *err)
{
	struct db_step step[] = {{.sql = "commit"}, {.sql = sql_text("sql_clean"), .ours = true}};
	PGresult *res[2] = {0};
	size_t failed;
	enum rc rc =
	    db_steps(g->session->db, step, 2, g->watch_fd, g->worker->env->kill_grace_us, res, &failed, err);

	g->clean = g->clean && rc == RC_OK && db_bool(res[1], 0, 0);
	if (PQresultStatus(res[0]) == PGRES_COMMAND_OK)
		rc = strcmp(PQcmdStatus(res[0]), "COMMIT") == 0 ? RC_OK : RC_AGAIN;
	PQclear(res[0]);
	PQclear(res[1]);
	return rc;
}

/* Whether its transaction has committed is the same for each of its members. */
static enum rc
close_transaction(struct sql_group *g)
{
	struct pgrab_result ignored = {.size = sizeof ignored};
	struct err err = {0};
	struct sql_work k;
	enum rc rc;

	if (g->stuck)
		return RC_UNKNOWN;
	if (g->n == 0 || g->broken || any_stops(g))
		return RC_AGAIN;
	sql_work_make(&k, g->worker, g->member[0].run, g->member[0].host, &ignored);
	k.session = g->session;
	rc = finish(g, &err);
	if (rc == RC_OK)
		rc = commit(g, &err);
	else if (rc == RC_UNKNOWN)
		lose(g, &k);
	if (rc == RC_UNKNOWN && !g->broken)
		rc = sql_find_out(&k);
	return rc == RC_OK || (rc == RC_UNKNOWN && (!g->broken || g->stuck)) ? rc : RC_AGAIN;
}

enum rc
sql_group_end(struct sql_group **group)
{
	struct sql_group *g = *group;
	enum rc rc = RC_AGAIN;

	if (g->session != NULL) {
		rc = close_transaction(g);
		if (!g->clean || rc != RC_OK)
			sql_session_clean(g->session);
		if (g->session->swollen)
			db_disconnect(g->session->db);
	}
	for (size_t i = 0; i < g->n; i++)
		outbuf_destroy(&g->member[i].out);
	close_fd(&g->watch_fd);
	close_fd(&g->timer_fd);
	free(g->member);
	free(g);
	*group = NULL;
	return rc;
}
