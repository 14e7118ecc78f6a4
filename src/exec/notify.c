/*
 * Kind notify: one pg_notify() on a channel, for whoever listens.
 *
 * Each worker has a connection of its own, opened at the first run and kept.  It is used without ever
 * blocking in libpq: every wait is a poll on the socket and on the host's stop_fd together, and ends at a
 * deadline.  A kept connection that proves dead before anything was sent is replaced once; one that is lost
 * later leaves the outcome open, and the error says so: nothing is sent twice here.
 */
#include "exec/exec.h"

#include <errno.h>
#include <libpq-fe.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/dsn.h"
#include "exec/result.h"

#define CONNECT_TIMEOUT_US (10 * US_PER_S)
#define ANSWER_TIMEOUT_US \
	(60 * US_PER_S) /* a commit can wait for a replica; the run's own limit is usually shorter */
#define PAYLOAD_MAX 7999
#define CHANNEL_MAX 63

struct notifier {
	const struct exec_env *env;
	PGconn *conn; /* NULL: none at the moment */
};

struct message {
	const char *channel, *payload;
};

static void *
open_notify(const void *internal, char *err, size_t err_size)
{
	struct notifier *n = xcalloc(1, sizeof(*n));

	n->env = internal;
	return n;
}

static void
drop_connection(struct notifier *n)
{
	PQfinish(n->conn);
	n->conn = NULL;
}

static void
close_notify(void *self)
{
	struct notifier *n = self;

	drop_connection(n);
	free(n);
}

/* RC_OK: payload is "" when there is none. */
static enum rc
take_args(const struct pgrab_run *run, struct message *out, struct err *err)
{
	size_t n = strlen(run->command);

	*out = (struct message){run->command, NULL};
	if (n == 0)
		return err_set(err, RC_BAD, "command is empty; for kind notify it is the channel");
	if (n > CHANNEL_MAX)
		return err_set(
		    err, RC_BAD, "the channel's name has %zu bytes, at most %d are allowed", n, CHANNEL_MAX);
	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "payload") != 0)
			return err_set(err, RC_BAD, "kind notify knows no args.%.60s; it knows payload",
			    run->args[i].key);
		if (out->payload != NULL)
			return err_set(err, RC_BAD,
			    "args.payload must be one text, not an array or an object; for "
			    "JSON write it as a string: (jsonb ...)::text");
		out->payload = run->args[i].value;
	}
	if (out->payload == NULL)
		out->payload = "";
	n = strlen(out->payload);
	if (n > PAYLOAD_MAX)
		return err_set(err, RC_BAD,
		    "args.payload has %zu bytes, PostgreSQL allows at most %d in a notification: send a key "
		    "and let the listener read the rest from a table",
		    n, PAYLOAD_MAX);
	return RC_OK;
}

/* Waits for `events` on the connection.  RC_OK, RC_AGAIN (the deadline), RC_CLOSED (the run must stop). */
static enum rc
wait_for(PGconn *conn, short events, const struct pgrab_host *host, int64_t until_us, struct err *err)
{
	struct pollfd fds[2] = {
	    {.fd = PQsocket(conn), .events = events}, {.fd = host->stop_fd, .events = POLLIN}};
	int n;

	for (;;) {
		n = poll(fds, 2, clock_poll_ms(clock_mono_us(), until_us));
		if (n < 0 && errno != EINTR)
			return err_set(
			    err, RC_AGAIN, "could not wait for the database: %s", strerrordesc_np(errno));
		if (n > 0 && fds[1].revents != 0)
			return err_set(err, RC_CLOSED, "%s",
			    host->stop(host->ctx) == PGRAB_STOP_TIMEOUT ? "timed out" : "stopped");
		if (n > 0)
			return RC_OK;
		if (n == 0 && clock_mono_us() >= until_us)
			return err_set(err, RC_AGAIN, "the database did not answer in time");
	}
}

/* Drops notices: they tell nobody anything here, and libpq would print them. */
static void
ignore_notice(void *arg, const char *message)
{
}

static PGconn *
start_connection(const struct exec_env *env)
{
	/* The settings before dbname are defaults; see db/dial.c. */
	const char *const keys[] = {"tcp_user_timeout", "keepalives_idle", "keepalives_interval",
	    "keepalives_count", "dbname", "application_name", "client_encoding", NULL};
	const char *const values[] = {"10000", "10", "3", "3", env->dsn, "pgrab notify", "UTF8", NULL};

	return PQconnectStartParams(keys, values, 1);
}

static enum rc
finish_connecting(PGconn *conn, const struct pgrab_host *host, struct err *err)
{
	int64_t until_us = clock_mono_us() + CONNECT_TIMEOUT_US;
	PostgresPollingStatusType state = PGRES_POLLING_WRITING; /* what libpq asks to assume at first */
	enum rc rc = RC_OK;

	if (PQstatus(conn) == CONNECTION_BAD)
		return err_set(err, RC_AGAIN, "%s", PQerrorMessage(conn));
	while (rc == RC_OK && state != PGRES_POLLING_OK) {
		rc = wait_for(conn, state == PGRES_POLLING_READING ? POLLIN : POLLOUT, host, until_us, err);
		if (rc == RC_OK)
			state = PQconnectPoll(conn);
		if (rc == RC_OK && state == PGRES_POLLING_FAILED)
			rc = err_set(err, RC_AGAIN, "%s", PQerrorMessage(conn));
	}
	if (rc == RC_OK && PQsetnonblocking(conn, 1) != 0)
		rc = err_set(err, RC_AGAIN, "%s", PQerrorMessage(conn));
	return rc;
}

/* A server sends an idle connection nothing but a farewell (or, rarely, that a setting was reloaded: a new
 * connection is cheap then too). */
static bool
is_alive(PGconn *conn)
{
	struct pollfd fd = {.fd = PQsocket(conn), .events = POLLIN};

	return PQstatus(conn) == CONNECTION_OK && PQtransactionStatus(conn) == PQTRANS_IDLE &&
	       poll(&fd, 1, 0) == 0;
}

/* A connection that is good as far as one can see without sending: the kept one, or a new one. */
static enum rc
ensure_connection(struct notifier *n, const struct pgrab_host *host, struct err *err)
{
	enum rc rc;

	if (n->conn != NULL && is_alive(n->conn))
		return RC_OK;
	drop_connection(n);
	n->conn = start_connection(n->env);
	if (n->conn == NULL)
		return err_set(err, RC_AGAIN, "could not connect to the database: out of memory");
	PQsetNoticeProcessor(n->conn, ignore_notice, NULL);
	rc = finish_connecting(n->conn, host, err);
	if (rc != RC_OK) {
		dsn_hide(n->env->dsn, err->text, sizeof err->text);
		err_prefix(err, "could not connect to the database");
	}
	return rc;
}

static enum rc
flush(PGconn *conn, const struct pgrab_host *host, int64_t until_us, struct err *err)
{
	enum rc rc = RC_OK;
	int left;

	/* the server may be unable to read before we do, so wait for both directions */
	while (rc == RC_OK && (left = PQflush(conn)) != 0) {
		if (left < 0)
			return err_set(err, RC_UNKNOWN, "%s", PQerrorMessage(conn));
		rc = wait_for(conn, POLLIN | POLLOUT, host, until_us, err);
		if (rc == RC_OK && PQconsumeInput(conn) == 0)
			return err_set(err, RC_UNKNOWN, "%s", PQerrorMessage(conn));
	}
	return rc;
}

/* The next result, NULL at the end. */
static enum rc
next_result(PGconn *conn, const struct pgrab_host *host, int64_t until_us, PGresult **out, struct err *err)
{
	enum rc rc = RC_OK;

	while (rc == RC_OK && PQisBusy(conn)) {
		rc = wait_for(conn, POLLIN, host, until_us, err);
		if (rc == RC_OK && PQconsumeInput(conn) == 0)
			return err_set(err, RC_UNKNOWN, "%s", PQerrorMessage(conn));
	}
	*out = rc == RC_OK ? PQgetResult(conn) : NULL;
	return rc;
}

/* RC_BAD: the server refused.  Anything else but RC_OK: it may have happened or not. */
static enum rc
send_notify(PGconn *conn, const struct message *m, const struct pgrab_host *host, struct err *err)
{
	const char *const values[] = {m->channel, m->payload};
	int64_t until_us = clock_mono_us() + ANSWER_TIMEOUT_US;
	PGresult *res = NULL;
	enum rc rc, verdict = RC_UNKNOWN;

	if (PQsendQueryParams(conn, "select pg_catalog.pg_notify($1, $2)", 2, NULL, values, NULL, NULL, 0) ==
	    0)
		return err_set(err, RC_UNKNOWN, "%s", PQerrorMessage(conn));
	rc = flush(conn, host, until_us, err);
	while (rc == RC_OK && (rc = next_result(conn, host, until_us, &res, err)) == RC_OK && res != NULL) {
		if (PQresultStatus(res) == PGRES_TUPLES_OK)
			verdict = RC_OK;
		else if (PQresultErrorField(res, PG_DIAG_SQLSTATE) != NULL && PQstatus(conn) == CONNECTION_OK)
			verdict = err_set(err, RC_BAD, "%s", PQresultErrorMessage(res));
		else
			verdict = err_set(err, RC_UNKNOWN, "%s", PQresultErrorMessage(res));
		PQclear(res);
	}
	return rc == RC_OK ? verdict : rc;
}

static void
run_notify(
    void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct notifier *n = self;
	struct message m;
	struct err err = {0};
	enum rc rc;

	rc = take_args(run, &m, &err);
	if (rc != RC_OK) {
		result_fail(result, "%s", err.text);
		return;
	}
	rc = ensure_connection(n, host, &err);
	if (rc != RC_OK) {
		result_fail(result, "%s", err.text);
		result->not_started = rc == RC_AGAIN; /* not when it was stopped: that is an outcome */
		drop_connection(n);
		return;
	}
	rc = send_notify(n->conn, &m, host, &err);
	result->succeeded = rc == RC_OK;
	if (rc == RC_BAD)
		result_fail(result, "could not notify: %s", err.text);
	else if (rc != RC_OK)
		result_fail(result, "could not notify, or it happened and the answer was lost: %s", err.text);
	if (rc != RC_OK)
		drop_connection(n); /* also cuts short what the server may still be doing */
}

const struct pgrab_executor exec_notify = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "notify",
    .summary = "notify a channel of the database",
    .open = open_notify,
    .close = close_notify,
    .run = run_notify,
};
