#include "node/runs/outcome.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/outbuf.h"
#include "core/secret.h"

/* Why it has not succeeded; the caller frees it. */
static char *
why_not(const struct run *r, enum pgrab_stop stop, const struct pgrab_result *res)
{
	if (stop == PGRAB_STOP_SHUTDOWN)
		return xstrdup("the node stopped before the run had ended (drain_timeout)");
	if (stop == PGRAB_STOP_PREEMPTED)
		return xstrdup("it gave way to more important work (preemptible)");
	if (stop == PGRAB_STOP_TIMEOUT && atomic_load(&r->stop.stalled))
		return xasprintf("it stalled: no output and no progress for %g s (stall_after)",
		    (double)r->task.stall_us / (double)US_PER_S);
	return text_printable(res->error, strnlen(res->error, sizeof res->error), sizeof res->error);
}

void
outcome_take(struct run *r, enum pgrab_stop stop, const struct pgrab_result *res)
{
	r->end.has_exit_code = res->has_exit_code;
	r->end.exit_code = res->exit_code;
	r->end.cost.cpu_us = res->cpu_us;
	r->end.cost.memory_bytes = res->memory_bytes;
	if (res->recorded)
		r->end.written = WRITTEN_BY_RUN;
	if (res->retry_after_us > 0)
		r->end.retry_us = RETRY_NOT_BEFORE - res->retry_after_us;
	if (res->succeeded)
		r->end.outcome = OUTCOME_SUCCEEDED;
	else if (res->not_started)
		r->end.outcome = OUTCOME_NOT_STARTED;
	else if (stop == PGRAB_STOP_TIMEOUT)
		r->end.outcome = OUTCOME_TIMED_OUT;
	else if (stop == PGRAB_STOP_CANCEL)
		r->end.outcome = OUTCOME_CANCELLED;
	else if (stop == PGRAB_STOP_PREEMPTED)
		r->end.outcome = OUTCOME_PREEMPTED;
	else if (stop == PGRAB_STOP_SHUTDOWN || stop == PGRAB_STOP_FENCED)
		r->end.outcome = OUTCOME_LOST;
	else
		r->end.outcome = OUTCOME_FAILED;
	if (!res->succeeded)
		r->end.error = why_not(r, stop, res);
	secret_hide(r, r->end.error, strnlen(res->error, sizeof res->error) >= sizeof res->error - 1);
	secret_hide(r, r->end.output, false);
}

#define HEAD "task=%" PRId64 " kind=%s attempt=%d of=%d outcome=%s ms=%" PRId64

void
outcome_log(const struct run *r)
{
	int64_t ms = (r->end.at_us - r->begun_us) / US_PER_MS;
	const char *key = r->task.key != NULL ? r->task.key : "", *outcome = outcome_name(r->end.outcome),
		   *trace = r->task.traceparent != NULL ? r->task.traceparent + strlen("00-") : "",
		   *error = r->end.error != NULL ? r->end.error : "";
	bool bad = r->end.outcome == OUTCOME_FAILED || r->end.outcome == OUTCOME_TIMED_OUT;

	if (!bad)
		log_debug(
		    "run", HEAD, r->id, r->task.kind, r->task.attempt, r->task.max_attempts, outcome, ms);
	else if (*key == '\0' && *trace == '\0')
		log_warn("run", HEAD " error=\"%.200s\"", r->id, r->task.kind, r->task.attempt,
		    r->task.max_attempts, outcome, ms, error);
	else
		log_warn("run", HEAD " key=\"%s\" trace=%.32s error=\"%.200s\"", r->id, r->task.kind,
		    r->task.attempt, r->task.max_attempts, outcome, ms, key, trace, error);
}
