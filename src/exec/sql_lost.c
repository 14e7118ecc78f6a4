/* A sql run whose connection was lost: its backend is ended, and the history says what became of it. */
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "core/backoff.h"
#include "db/store_task.h"
#include "exec/sql.h"

#define LEAVE_US (15 * US_PER_S) /* a node that is stopping gives up on a lost backend after this */

/* False: other nodes end the run, and its backend first. */
static bool
try_again(const struct pgrab_host *host, struct backoff *backoff, int64_t begun_us)
{
	enum pgrab_stop stop = host->stop(host->ctx);

	if (stop == PGRAB_STOP_FENCED ||
	    (stop == PGRAB_STOP_SHUTDOWN && clock_mono_us() - begun_us > LEAVE_US))
		return false;
	poll(NULL, 0, (int)(backoff_next_us(backoff) / US_PER_MS)); /* even after a stop it must be known */
	return true;
}

bool
sql_end_backend(const struct sql_work *k)
{
	int64_t begun_us = clock_mono_us();
	struct backoff backoff;
	struct err ignored;

	if (pgrab_host_has(k->host, waits_for) && k->session->pid[0] != '\0') {
		char text[80];

		snprintf(
		    text, sizeof text, "the server's process %s, whose connection was lost", k->session->pid);
		k->host->waits_for(k->host->ctx, text);
	}
	if (k->host->stop(k->host->ctx) == PGRAB_STOP_FENCED)
		return false; /* a silent server would keep this node from being done with it in time */
	backoff_init(&backoff, 50 * US_PER_MS, US_PER_S, (uint64_t)begun_us);
	do {
		if (sql_session_end_backend(k->session, &ignored) == RC_OK)
			return true;
	} while (try_again(k->host, &backoff, begun_us));
	return false;
}

/* Is what the transaction was to record there? */
static enum rc
look(struct sql_work *k, bool *there_out, struct err *err)
{
	struct finish f = {
	    .id = k->run->task_id, .version = k->run->version, .incarnation = k->run->incarnation};
	struct finish *one = &f;
	enum rc rc;

	if (!k->closes)
		return sql_step_recorded(k, there_out, err);
	rc = store_recorded(k->worker->db, &one, 1, err);
	*there_out = f.applied;
	return rc;
}

enum rc
sql_find_out(struct sql_work *k)
{
	bool there;
	int64_t begun_us = clock_mono_us();
	struct backoff backoff;
	struct err ignored;

	if (!sql_end_backend(k))
		return RC_UNKNOWN;
	backoff_init(&backoff, 50 * US_PER_MS, US_PER_S, (uint64_t)begun_us);
	do {
		enum rc rc;

		db_by(k->worker->db, clock_mono_us() + k->worker->env->call_us);
		rc = look(k, &there, &ignored);
		db_by(k->worker->db, 0);
		if (rc == RC_OK)
			return there ? RC_OK : RC_AGAIN;
	} while (try_again(k->host, &backoff, begun_us));
	return RC_UNKNOWN;
}
