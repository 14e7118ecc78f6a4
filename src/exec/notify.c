/*
 * Kind notify: one pg_notify() on a channel.
 *
 * Each worker has a connection of its own, opened at the first run and kept.  One that proves dead before
 * anything was sent is replaced; one that is lost later leaves the outcome open, and the error says so:
 * nothing is sent twice here.
 */
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "db/pg.h"
#include "exec/result.h"

#define PAYLOAD_MAX 7999
#define CHANNEL_MAX 63

struct notifier {
	const struct exec_env *env;
	struct db *db;
};

static void *
open_notify(const void *internal, char *err, size_t err_size)
{
	struct notifier *n = xcalloc(1, sizeof *n);

	n->env = internal;
	n->db = db_create(n->env->dsn, "pgrab notify", n->env->call_us);
	db_be(n->db, DB_OF_NODE | DB_PATIENT | DB_PLAIN);
	return n;
}

static void
close_notify(void *self)
{
	struct notifier *n = self;

	db_destroy(&n->db);
	free(n);
}

/* The channel and the payload, as they are sent. */
static enum rc
take_args(const struct pgrab_run *run, const char *params[2], struct err *err)
{
	size_t n = strlen(run->command);

	params[0] = run->command;
	params[1] = NULL;
	if (n == 0)
		return err_set(err, RC_BAD, "command is empty; for kind notify it is the channel");
	if (n > CHANNEL_MAX)
		return err_set(
		    err, RC_BAD, "the channel's name has %zu bytes, at most %d are allowed", n, CHANNEL_MAX);
	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "payload") != 0)
			return err_set(err, RC_BAD, "kind notify knows no args.%.60s; it knows payload",
			    run->args[i].key);
		if (params[1] != NULL)
			return err_set(err, RC_BAD,
			    "args.payload must be one text, not an array or an object; for "
			    "JSON write it as a string: (jsonb ...)::text");
		params[1] = run->args[i].value;
	}
	n = params[1] == NULL ? 0 : strlen(params[1]);
	if (n > PAYLOAD_MAX)
		return err_set(err, RC_BAD,
		    "args.payload has %zu bytes, PostgreSQL allows at most %d in a notification: send a key "
		    "and let the listener read the rest from a table",
		    n, PAYLOAD_MAX);
	return RC_OK;
}

static void
send_notify(struct notifier *n, const char *const params[2], const struct pgrab_host *host,
    struct pgrab_result *result)
{
	const struct db_step step = {
	    .sql = "select pg_catalog.pg_notify($1, coalesce($2, ''))", .n_params = 2, .params = params};
	struct err err = {0};
	size_t failed;
	enum rc rc = db_steps(n->db, &step, 1, host->stop_fd, n->env->kill_grace_us, NULL, &failed, &err);

	result->succeeded = rc == RC_OK;
	if (rc == RC_UNKNOWN)
		result_fail(result, "could not notify, or it happened and the answer was lost: %s", err.text);
	else if (rc != RC_OK && host->stop(host->ctx) != PGRAB_STOP_NONE)
		result_fail(result, "could not notify: %s", stop_text(host->stop(host->ctx)));
	else if (rc != RC_OK)
		result_fail(result, "could not notify: %s", err.text);
}

static void
run_notify(
    void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct notifier *n = self;
	const char *params[2];
	struct err err = {0};
	enum rc rc = take_args(run, params, &err);

	if (rc == RC_OK) {
		db_drop_dead(n->db);
		rc = db_connect(n->db, &err);
	}
	if (rc == RC_OK && host->stop(host->ctx) != PGRAB_STOP_NONE) /* meanwhile: the node was frozen */
		rc = err_set(&err, RC_AGAIN, "could not notify: %s", stop_text(host->stop(host->ctx)));
	if (rc == RC_OK) {
		send_notify(n, params, host, result);
	} else {
		result_fail(result, "%s", err.text);
		result->not_started = rc != RC_BAD && host->stop(host->ctx) == PGRAB_STOP_NONE;
	}
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
