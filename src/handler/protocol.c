/* What the node writes to a handler process. */
#include "handler/protocol.h"

#include <inttypes.h>

/* args, parents, signal and steps are JSON made by the database, without line ends. */
void
protocol_task(struct buf *out, int64_t number, const struct run *r, const char *fire_at, const char *fence)
{
	const char *args = pairs_get(&r->task.args, "args"), *parents = pairs_get(&r->task.args, "parents"),
		   *signal = pairs_get(&r->task.args, "signal"), *steps = pairs_get(&r->task.args, "steps");

	buf_addf(out, "{\"type\":\"task\",\"run\":%" PRId64 ",\"id\":%" PRId64 ",\"kind\":", number, r->id);
	buf_json(out, r->task.kind);
	buf_addf(
	    out, ",\"attempt\":%" PRId32 ",\"max_attempts\":%" PRId32, r->task.attempt, r->task.max_attempts);
	buf_addf(out, ",\"fire_at\":\"%s\",\"fence\":\"%s\"", fire_at, fence);
	buf_addf(out, ",\"timeout\":%.3f", (double)r->task.timeout_us / (double)US_PER_S);
	if (r->task.traceparent != NULL)
		buf_addf(out, ",\"traceparent\":\"%s\"", r->task.traceparent);
	if (r->task.name[0] != '\0') {
		buf_adds(out, ",\"name\":");
		buf_json(out, r->task.name);
	}
	if (r->task.command[0] != '\0') {
		buf_adds(out, ",\"command\":");
		buf_json(out, r->task.command);
	}
	buf_addf(out, ",\"args\":%s", args != NULL ? args : "{}");
	if (parents != NULL)
		buf_addf(out, ",\"parents\":%s", parents);
	if (signal != NULL)
		buf_addf(out, ",\"signal\":%s", signal);
	if (steps != NULL)
		buf_addf(out, ",\"steps\":%s", steps);
	buf_adds(out, "}\n");
}

/* The result is JSON made by the database, without line ends. */
void
protocol_step(struct buf *out, int64_t number, const struct step *s, const char *why)
{
	buf_addf(out, "{\"type\":\"step\",\"run\":%" PRId64 ",\"name\":", number);
	buf_json(out, s->name);
	buf_addf(out, ",\"recorded\":%s", why == NULL && s->state == STEP_RECORDED ? "true" : "false");
	if (why == NULL && s->state == STEP_RECORDED && s->result != NULL)
		buf_addf(out, ",\"result\":%s", s->result);
	if (why != NULL) {
		buf_adds(out, ",\"error\":");
		buf_json(out, why);
	}
	buf_adds(out, "}\n");
}

void
protocol_stop(struct buf *out, int64_t number, enum pgrab_stop why)
{
	static const char *const reason[] = {
	    [PGRAB_STOP_NONE] = "cancel",
	    [PGRAB_STOP_TIMEOUT] = "timeout",
	    [PGRAB_STOP_CANCEL] = "cancel",
	    [PGRAB_STOP_FENCED] = "fenced",
	    [PGRAB_STOP_SHUTDOWN] = "shutdown",
	    [PGRAB_STOP_PREEMPTED] = "preempted",
	};

	buf_addf(out, "{\"type\":\"stop\",\"run\":%" PRId64 ",\"reason\":\"%s\"}\n", number, reason[why]);
}

void
protocol_ping(struct buf *out, int64_t number)
{
	buf_addf(out, "{\"type\":\"ping\",\"n\":%" PRId64 "}\n", number);
}

void
protocol_end(struct buf *out)
{
	buf_adds(out, "{\"type\":\"end\"}\n");
}
