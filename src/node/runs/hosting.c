#include "node/runs/hosting.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "core/secret.h"
#include "node/context.h"
#include "node/runs/live.h"

static enum pgrab_stop
host_stop(void *ctx)
{
	struct hosting *h = ctx;

	/* Even before anybody has said so: nothing new is begun between two steps. */
	if (!node_may_act(h->node, h->run->incarnation, clock_boot_us()))
		return PGRAB_STOP_FENCED;
	return (enum pgrab_stop)atomic_load(&h->run->stop.why);
}

static void
host_output(void *ctx, const void *bytes, size_t n)
{
	live_print(((struct hosting *)ctx)->live, bytes, n);
}

static void
host_progress(void *ctx, double percent, const char *text)
{
	live_progress(((struct hosting *)ctx)->live, percent, text);
}

static void
host_waits_for(void *ctx, const char *text)
{
	live_waits_for(((struct hosting *)ctx)->live, text);
}

#define LOG_BYTES 1000

static void
host_log(void *ctx, const char *text)
{
	struct hosting *h = ctx;
	AUTO_FREE char *line = text_printable(text, strlen(text), LOG_BYTES);

	secret_hide(h->run, line, strlen(text) >= LOG_BYTES);
	log_info("executor", "task=%" PRId64 " kind=%s text=\"%s\"", h->run->id, h->run->task.kind, line);
}

static void
make_view(struct hosting *h, const struct run *r)
{
	_Static_assert(sizeof(struct pair) == sizeof(struct pgrab_arg), "args are handed on as they are");
	run_fire_at(r, h->fire_at);
	run_fence(r, h->fence);
	h->view = (struct pgrab_run){.size = sizeof h->view,
	    .task_id = r->id,
	    .version = r->version,
	    .incarnation = r->incarnation,
	    .name = r->task.name,
	    .kind = r->task.kind,
	    .command = r->task.command,
	    .fire_at = h->fire_at,
	    .fence = h->fence,
	    .attempt = r->task.attempt,
	    .max_attempts = r->task.max_attempts,
	    .timeout_us = r->task.timeout_us,
	    .n_args = r->task.args.count,
	    .args = (const struct pgrab_arg *)r->task.args.item,
	    .owner = r->task.owner,
	    .proof = r->task.proof,
	    .traceparent = r->task.traceparent};
}

void
hosting_make(struct hosting *h, const struct node *n, struct run *r, struct live *live)
{
	h->node = n;
	h->run = r;
	h->live = live;
	h->host = (struct pgrab_host){.size = sizeof h->host,
	    .ctx = h,
	    .stop_fd = r->stop.fd,
	    .stop = host_stop,
	    .output = host_output,
	    .log = host_log,
	    .progress = host_progress,
	    .waits_for = host_waits_for};
	make_view(h, r);
}
