/* LISTEN, without ever blocking the loop: the connection is used and watched through one socket event and one
 * timer.  It is made in a thread of its own, because libpq's name lookups have no time limit. */
#include "node/doorbell.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/event.h>
#include <libpq-fe.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/texts.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "db/pg.h"
#include "db/sql.h"
#include "pgrab/strategy.h"

#define SHARDS_MAX    64              /* as pgrab_internal.ring_out(): of more it names none */
#define ANSWER_US     (10 * US_PER_S) /* for connecting, and for LISTEN */
#define RETRY_US      (10 * US_PER_S)
#define DEAF_US       (2 * US_PER_S)   /* for a notification to arrive */
#define DEAF_RETRY_US (600 * US_PER_S) /* a person may reconfigure the pooler */
#define HEALTH_US     (60 * US_PER_S)  /* a half-open connection is found by asking something now and then */

enum bell_state { BELL_IDLE, BELL_CONNECTING, BELL_ASKED, BELL_LISTENING };

/* A connection in the making.  The thread has it until done_fd is readable, the loop from then on. */
struct dialing {
	_Atomic int holders; /* the thread and the loop: the last one to let go frees it */
	int done_fd;
	char *dsn;
	struct db *db;
	struct err err;
	_Atomic int rc; /* enum rc; written last */
};

struct doorbell {
	struct event_base *base; /* borrowed */
	char *dsn;
	struct doorbell_calls calls;
	_Atomic bool *listening;
	enum bell_state state;
	struct dialing *dialing; /* CONNECTING, and afterwards: the connection is in it */
	PGconn *conn;            /* in dialing; NULL before */
	struct event *socket;    /* CONNECTING: done_fd */
	struct event *timer;     /* IDLE: connect now; ASKED: too long; LISTENING: time for a health check */
	struct backoff backoff;
};

static void on_socket(evutil_socket_t fd, short what, void *arg);

static void
set_timer(struct doorbell *d, int64_t us)
{
	struct timeval tv = {.tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S};

	event_add(d->timer, &tv);
}

static void
watch(struct doorbell *d, int fd)
{
	if (d->socket != NULL)
		event_free(d->socket);
	d->socket = event_new(d->base, fd, EV_READ | EV_PERSIST, on_socket, d);
	event_add(d->socket, NULL);
}

static void
let_go(struct dialing *c)
{
	if (c == NULL || atomic_fetch_sub(&c->holders, 1) > 1)
		return;
	db_destroy(&c->db);
	close(c->done_fd);
	free(c->dsn);
	free(c);
}

static void
hang_up(struct doorbell *d)
{
	if (d->socket != NULL)
		event_free(d->socket);
	d->socket = NULL;
	d->conn = NULL;
	let_go(d->dialing);
	d->dialing = NULL;
	d->state = BELL_IDLE;
	atomic_store(d->listening, false);
}

static void
retry(struct doorbell *d, const char *why)
{
	if (d->backoff.tries == 0)
		log_warn("doorbell", "state=cut error=\"%.*s\" hint=\"polling goes on\"",
		    (int)strcspn(why, "\n"), why);
	hang_up(d);
	set_timer(d, backoff_next_us(&d->backoff));
}

/* Does a notification come to a session that is doing nothing?  Rung from another connection; not the bell
 * itself, because that would wake every node. */
static enum rc
hears(struct dialing *c, struct db *other, struct err *err)
{
	char sql[100];
	int64_t now = clock_mono_us(), until = now + DEAF_US;
	PGnotify *note = NULL;
	enum rc rc;

	snprintf(sql, sizeof sql, "listen pgrab_test_%" PRId64, now);
	rc = db_script(c->db, sql, err);
	snprintf(sql, sizeof sql, "notify pgrab_test_%" PRId64, now);
	if (rc == RC_OK)
		rc = db_script(other, sql, err);
	while (rc == RC_OK && note == NULL && db_await(c->db, until, err) == RC_OK)
		note = PQnotifies(db_conn(c->db));
	if (rc == RC_OK && note == NULL)
		rc = err_set(err, RC_BAD,
		    "a pooler in between does not pass on notifications (pool_mode transaction or "
		    "statement); set listen_dsn to an address without it");
	PQfreemem(note);
	return rc;
}

/* Only a pooler can be deaf: LISTEN succeeds there, and nothing ever comes. */
static enum rc
connect_and_test(struct dialing *c, const char *dsn)
{
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = db_query(c->db, "select pg_catalog.pg_backend_pid()", 0, NULL, &res, &c->err);
	bool pooled = rc == RC_OK && db_int64(res, 0, 0) != PQbackendPID(db_conn(c->db));

	if (pooled) {
		AUTO_DB struct db *other = db_create(dsn, "pgrab listen test", ANSWER_US);

		db_be(other, DB_PLAIN);
		rc = hears(c, other, &c->err);
	}
	return rc;
}

static void *
connect_main(void *arg)
{
	struct dialing *c = arg;

	atomic_store(&c->rc, (int)connect_and_test(c, c->dsn));
	if (eventfd_write(c->done_fd, 1) < 0)
		abort();
	let_go(c);
	return NULL;
}

static void
start_connecting(struct doorbell *d)
{
	struct dialing *c = xcalloc(1, sizeof *c);
	struct err err = {0};
	pthread_t thread;

	c->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->done_fd < 0) {
		free(c);
		retry(d, "out of descriptors");
		return;
	}
	c->holders = 2;
	c->dsn = xstrdup(d->dsn);
	c->db = db_create(d->dsn, "pgrab listen", ANSWER_US);
	db_be(c->db, DB_OF_NODE | DB_PLAIN);
	d->dialing = c;
	d->state = BELL_CONNECTING;
	watch(d, c->done_fd);
	if (thread_try(&thread, "doorbell", connect_main, c, &err) != RC_OK) {
		c->holders = 1; /* ours alone */
		retry(d, err.text);
		return;
	}
	PTHREAD_OK(pthread_detach(thread));
}

static void
ask(struct doorbell *d, const char *sql)
{
	if (!PQsendQuery(d->conn, sql)) {
		retry(d, PQerrorMessage(d->conn));
		return;
	}
	PQflush(d->conn); /* a few bytes on an empty socket */
	d->state = BELL_ASKED;
	watch(d, PQsocket(d->conn));
	set_timer(d, ANSWER_US);
}

static void
connected(struct doorbell *d)
{
	enum rc rc = (enum rc)atomic_load(&d->dialing->rc);

	d->backoff.max_us = rc == RC_BAD ? DEAF_RETRY_US : RETRY_US;
	if (rc != RC_OK) {
		retry(d, d->dialing->err.text);
		return;
	}
	d->conn = db_conn(d->dialing->db);
	ask(d, sql_text("listen"));
}

/* "17 523 900"; none means everywhere.  Whatever else it says, everything is looked at anew. */
static void
read_shards(struct doorbell *d, const char *text)
{
	uint16_t shards[SHARDS_MAX];
	unsigned n = 0;

	while (*text != '\0') {
		char *end;
		unsigned long v = strtoul(text, &end, 10);

		if (end == text || v >= PGRAB_SHARDS || n == SHARDS_MAX) {
			d->calls.anew(d->calls.ctx);
			return;
		}
		shards[n++] = (uint16_t)v;
		text = end + strspn(end, " ");
	}
	d->calls.ring(d->calls.ctx, shards, n);
}

static void
read_notifies(struct doorbell *d)
{
	PGnotify *note;

	while ((note = PQnotifies(d->conn)) != NULL) {
		int64_t node_id;

		if (strcmp(note->extra, "wish") == 0)
			d->calls.wish(d->calls.ctx);
		else if (IS_ONE_OF(note->extra, "alerts", "calendars", "blackouts"))
			d->calls.notice(d->calls.ctx);
		else if (strcmp(note->extra, "waits") == 0)
			d->calls.waits(d->calls.ctx);
		else if (sscanf(note->extra, "output %" SCNd64, &node_id) == 1)
			d->calls.ask(d->calls.ctx, node_id);
		else if (sscanf(note->extra, "busy %" SCNd64, &node_id) == 1)
			d->calls.news(d->calls.ctx, node_id, MEMBER_BUSY);
		else if (sscanf(note->extra, "leaves %" SCNd64, &node_id) == 1)
			d->calls.news(d->calls.ctx, node_id, MEMBER_LEAVES);
		else if (sscanf(note->extra, "joins %" SCNd64, &node_id) == 1)
			d->calls.joins(d->calls.ctx);
		else
			read_shards(d, note->extra);
		PQfreemem(note);
	}
}

static void
read_answer(struct doorbell *d)
{
	PGresult *res;

	while (!PQisBusy(d->conn)) {
		res = PQgetResult(d->conn);
		if (res == NULL) {
			if (d->backoff.tries > 0)
				log_info("doorbell", "state=listening");
			backoff_reset(&d->backoff);
			d->state = BELL_LISTENING;
			set_timer(d, HEALTH_US);
			/* Rings may have been missed, unless this was only a health check. */
			if (!atomic_exchange(d->listening, true)) {
				d->calls.anew(d->calls.ctx);
				d->calls.joins(d->calls.ctx);
			}
			return;
		}
		bool ok = PQresultStatus(res) == PGRES_COMMAND_OK;

		PQclear(res);
		if (!ok) {
			retry(d, PQerrorMessage(d->conn));
			return;
		}
	}
}

static void
on_socket(evutil_socket_t fd, short what, void *arg)
{
	struct doorbell *d = arg;

	if (d->state == BELL_CONNECTING) {
		connected(d);
		return;
	}
	if (!PQconsumeInput(d->conn)) {
		retry(d, PQerrorMessage(d->conn));
		return;
	}
	if (d->state == BELL_ASKED)
		read_answer(d);
	/* Even before the answer: libpq keeps what nobody takes, and anybody may notify. */
	if (d->conn != NULL)
		read_notifies(d);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct doorbell *d = arg;

	switch (d->state) {
	case BELL_IDLE: start_connecting(d); break;
	case BELL_ASKED: retry(d, "no answer from the server in time"); break;
	case BELL_LISTENING:
		ask(d, sql_text("listen"));
		break; /* repeating it does no harm, and shows that the server is there */
	case BELL_CONNECTING:
	default: break;
	}
}

struct doorbell *
doorbell_create(
    struct event_base *base, const char *dsn, const struct doorbell_calls *calls, _Atomic bool *listening)
{
	struct doorbell *d = xcalloc(1, sizeof *d);

	d->base = base;
	d->dsn = xstrdup(dsn == NULL ? "" : dsn);
	d->calls = *calls;
	d->listening = listening;
	d->timer = event_new(base, -1, 0, on_timer, d);
	backoff_init(&d->backoff, 100 * US_PER_MS, RETRY_US, (uint64_t)clock_mono_us());
	start_connecting(d);
	return d;
}

void
doorbell_destroy(struct doorbell **dp)
{
	struct doorbell *d = *dp;

	if (d == NULL)
		return;
	hang_up(d);
	event_free(d->timer);
	free(d->dsn);
	free(d);
	*dp = NULL;
}
