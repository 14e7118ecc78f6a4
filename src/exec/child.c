/*
 * The worker's side of a child process: one poll on its output, on its run socket, and on the host's stop_fd.
 *
 * The run is over when shim or keeper has said that nothing of it is left: not when the output ends (a
 * grandchild may keep that), and not after any time.  As long as any of it may still run, its task stays
 * running.  How it ended is what the shim saw first, so that a stop that comes too late does not turn a
 * success into a failure.
 */
#include "exec/child.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "exec/bounds.h"
#include "exec/child_end.h"
#include "exec/exec.h"
#include "exec/result.h"
#include "keeper/keeper.h"

#define CHUNK_BYTES 65536
#define LATE_US     (2 * US_PER_S) /* after a stop and kill_grace; then we say what the run waits for */
#define LOOK_US     (5 * US_PER_S) /* and look again, because it may change */

struct child {
	const struct exec_env *env;
	char chunk[CHUNK_BYTES];
};

/* One run; descriptors that are not open are -1. */
struct watch {
	const struct pgrab_host *host;
	char *chunk;
	struct keeper_run run;
	int out_fd, stop_fd;
	bool said; /* what it waits for */
	int64_t kill_grace_us;
	int64_t late_us; /* monotonic; when to say what it waits for; CLOCK_NEVER before a stop */
	struct child_end end;
};

void *
child_open(const void *internal, char *err, size_t err_size)
{
	const struct exec_env *env = internal;
	struct child *c;

	if (env == NULL || env->keeper == NULL) {
		snprintf(
		    err, err_size, "the keeper process, which starts programs, does not run on this node");
		return NULL;
	}
	c = xcalloc(1, sizeof *c);
	c->env = env;
	return c;
}

void
child_close(void *self)
{
	free(self);
}

/* On RC_OK the caller must close out_fd (which does not block) and the run's descriptor. */
static enum rc
start(struct child *c, const struct surroundings *around, const struct child_plan *p, int *out_fd,
    struct keeper_run *run, struct err *err)
{
	struct keeper_spec spec = {.argv = (const char *const *)p->argv.item,
	    .env = (const char *const *)p->env.item,
	    .cwd = p->cwd == NULL ? around->cwd : p->cwd,
	    .umask = p->umask == NULL ? around->umask : (int)strtol(p->umask, NULL, 8),
	    .nice = around->nice,
	    .user = around->user,
	    .stdin_fd = -1};
	enum rc rc = limits_within(&around->limits, &p->limits, &spec.limits, err);

	if (rc == RC_OK && p->stdin_text != NULL)
		rc = memfile_make("stdin", p->stdin_text, strlen(p->stdin_text), &spec.stdin_fd, err);
	if (rc == RC_OK && p->script != NULL)
		rc = memfile_make("command", p->script, strlen(p->script), &spec.script_fd, err);
	if (rc == RC_OK)
		rc = child_start(c->env->keeper, &spec, run, out_fd, err);
	close_fd(&spec.stdin_fd);
	if (spec.script_fd > 0)
		close_fd(&spec.script_fd);
	return rc;
}

/* One chunk at a time, so that a flood of output delays neither the shim nor a stop.  Returns its size. */
static size_t
take_output(struct watch *w)
{
	size_t n = child_end_read(&w->end, &w->out_fd, w->chunk, CHUNK_BYTES);

	if (n > 0)
		w->host->output(w->host->ctx, w->chunk, n);
	return n;
}

/* Nothing of the run is left, so this ends; bounded in case a process outside the run was given the pipe. */
static void
drain_output(struct watch *w)
{
	size_t total = 0, n = 1;

	while (w->out_fd >= 0 && n > 0 && total < CHILD_PIPE_BYTES) {
		n = take_output(w);
		total += n;
	}
}

static void
pass_on_stop(struct watch *w)
{
	w->end.stop = w->host->stop(w->host->ctx);
	w->stop_fd = -1; /* it stays readable */
	keeper_stop_run(&w->run);
	w->late_us = clock_mono_us() + w->kill_grace_us + LATE_US;
}

static void
say_if_late(struct watch *w, struct keeper *k)
{
	char text[200];

	if (clock_mono_us() < w->late_us)
		return;
	w->late_us = clock_mono_us() + LOOK_US;
	child_end_waits(w->end.last.shim, keeper_pid(k), text, sizeof text);
	if (pgrab_host_has(w->host, waits_for))
		w->host->waits_for(w->host->ctx, text);
	if (!w->said)
		w->host->log(
		    w->host->ctx, "was killed and has not ended yet; its task stays running until it has");
	w->said = true;
}

/* Returns when nothing of the run is left, whatever it takes. */
static void
watch_run(struct watch *w, struct keeper *k)
{
	bool over = false;

	while (!over) {
		struct pollfd p[] = {{.fd = w->out_fd, .events = POLLIN}, {.fd = w->run.fd, .events = POLLIN},
		    {.fd = w->stop_fd, .events = POLLIN}};

		if (poll(p, 3, clock_poll_ms(clock_mono_us(), w->late_us)) < 0)
			continue;
		say_if_late(w, k);
		if (p[0].revents != 0)
			take_output(w);
		if (p[1].revents != 0)
			over = child_end_message(&w->end, w->run.fd);
		if (p[2].revents != 0)
			pass_on_stop(w);
	}
	if (!w->end.gone)
		keeper_await_end(k, w->run.life);
	drain_output(w);
}

static void
say_leftovers(const struct watch *w)
{
	char line[100];

	if (w->end.last.leftovers == 0)
		return;
	snprintf(line, sizeof line, "killed %d processes that the run left behind", w->end.last.leftovers);
	w->host->log(w->host->ctx, line);
}

static void
carry_out(struct child *c, const struct surroundings *around, const struct child_plan *p,
    const struct pgrab_host *host, struct pgrab_result *result)
{
	struct watch w = {.host = host,
	    .chunk = c->chunk,
	    .run = {.fd = -1},
	    .out_fd = -1,
	    .stop_fd = host->stop_fd,
	    .kill_grace_us = c->env->kill_grace_us,
	    .late_us = CLOCK_NEVER};
	struct err err = {0};
	enum rc rc = start(c, around, p, &w.out_fd, &w.run, &err);

	if (rc == RC_OK) {
		watch_run(&w, c->env->keeper);
		child_explain(&w.end, p->argv.item[0], p->cwd == NULL ? around->cwd : p->cwd, result);
		say_leftovers(&w);
		result->cpu_us = w.end.last.cpu_us;
		result->memory_bytes = w.end.last.memory_bytes;
	} else {
		result->not_started = rc != RC_BAD;
		result_fail(result, "could not start: %s", err.text);
	}
	close_fd(&w.run.fd);
	close_fd(&w.out_fd);
}

void
child_run(void *self, const struct child_command *cmd, const struct pgrab_run *run,
    const struct pgrab_host *host, struct pgrab_result *result)
{
	struct child *c = self;
	const struct bounds *b = bounds_of(c->env->bounds, run->owner);
	struct child_plan plan;
	struct err err = {0};
	enum rc rc = child_plan_make(
	    &plan, cmd->argv, cmd->takes_argv, (const char *const *)b->around.env.item, run, &err);

	plan.script = cmd->script;
	if (rc == RC_OK)
		rc = bounds_program(b, plan.argv.item[0], (const char *const *)plan.asked.item, &err);
	if (rc == RC_OK)
		carry_out(c, &b->around, &plan, host, result);
	else
		result_fail(result, "%s", err.text);
	child_plan_fini(&plan);
}
