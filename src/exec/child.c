/*
 * The worker's side of a child process: one poll on its output, on its run socket, and on the host's stop_fd.
 *
 * The run is over when the run socket is at its end: not when the output ends (a grandchild may keep that), not
 * when the shim has reported, and not after any time.  For as long as it may still run, its task stays running.
 * How it ended is what the shim saw first, so that a stop that comes too late takes nothing away from a success.
 */
#include "exec/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "exec/child_plan.h"
#include "exec/exec.h"
#include "exec/limits.h"
#include "exec/result.h"
#include "exec/surroundings.h"
#include "keeper/keeper.h"

#define CHUNK_BYTES 65536
#define DRAIN_BYTES (4 * 1024 * 1024) /* more than a pipe can hold */
#define TAIL_BYTES  512               /* of the output, for the last line in the error */
#define LATE_US     (2 * US_PER_S)    /* after a stop and kill_grace: from then on the log says why nothing happens */

struct child {
	const struct exec_env *env;
	struct surroundings own; /* when the node has none */
	const struct surroundings *around;
	char chunk[CHUNK_BYTES];
};

/* One run; descriptors are -1 when they are not there, or no longer. */
struct watch {
	const struct pgrab_host *host;
	char *chunk;
	struct keeper_run run;
	int out_fd, stop_fd;
	enum pgrab_stop stop;
	struct keeper_msg last; /* of the shim; event 0: none yet */
	bool gone;              /* the keeper said that nothing is left */
	int64_t kill_grace_us, late_us; /* late_us: monotonic, CLOCK_NEVER before a stop and once it was said */
	char tail[TAIL_BYTES];  /* the end of the output */
	size_t tail_len;
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
	c->around = env->surroundings;
	if (c->around == NULL) {
		c->around = &c->own;
		if (surroundings_make(&c->own, NULL, "/", "077", 0, NULL) != RC_OK)
			abort(); /* these are our own values */
	}
	return c;
}

void
child_close(void *self)
{
	struct child *c = self;

	surroundings_fini(&c->own);
	free(c);
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* RC_AGAIN: the system refused. */
static enum rc
make_file(const char *what, const char *text, int *fd_out, struct err *err)
{
	size_t len = strlen(text), done = 0;
	int fd = memfd_create(what, MFD_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : 0;

	while (n >= 0 && done < len) {
		n = write(fd, text + done, len - done);
		done += n > 0 ? (size_t)n : 0;
	}
	if (n >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		n = -1;
	*fd_out = fd;
	return n < 0 ? err_set(err, RC_AGAIN, "could not put down the %s: %s", what, strerrordesc_np(errno))
		     : RC_OK;
}

/* On RC_OK the caller has out_fd (does not block) and the run's descriptor to close. */
static enum rc
start(struct child *c, const struct child_plan *p, int *out_fd, struct keeper_run *run, struct err *err)
{
	struct keeper_spec spec = {.argv = p->argv.item,
	    .env = p->env.item,
	    .cwd = p->cwd == NULL ? c->around->cwd : p->cwd,
	    .umask = c->around->umask,
	    .nice = c->around->nice,
	    .stdin_fd = -1};
	int out[2] = {-1, -1};
	enum rc rc = limits_within(&c->around->limits, &p->limits, &spec.limits, err);

	if (rc == RC_OK && p->stdin_text != NULL)
		rc = make_file("stdin", p->stdin_text, &spec.stdin_fd, err);
	if (rc == RC_OK && p->script != NULL)
		rc = make_file("command", p->script, &spec.script_fd, err);
	if (rc == RC_OK && (pipe2(out, O_CLOEXEC) != 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) != 0))
		rc = err_set(err, RC_AGAIN, "could not make a pipe: %s", strerrordesc_np(errno));
	if (rc == RC_OK) {
		spec.output_fd = out[1];
		rc = keeper_spawn(c->env->keeper, &spec, run, err);
	}
	if (rc == RC_OK) {
		*out_fd = out[0];
		out[0] = -1;
	}
	close_fd(&out[0]);
	close_fd(&out[1]);
	close_fd(&spec.stdin_fd);
	if (spec.script_fd > 0)
		close(spec.script_fd);
	return rc;
}

static void
keep_tail(struct watch *w, size_t n)
{
	size_t add = n < TAIL_BYTES ? n : TAIL_BYTES;
	size_t keep = w->tail_len < TAIL_BYTES - add ? w->tail_len : TAIL_BYTES - add;

	memmove(w->tail, w->tail + w->tail_len - keep, keep);
	memcpy(w->tail + keep, w->chunk + n - add, add);
	w->tail_len = keep + add;
}

/* One chunk at a time, so that a flood of output delays neither the shim nor a stop.  Returns its size. */
static size_t
take_output(struct watch *w)
{
	ssize_t n = read(w->out_fd, w->chunk, CHUNK_BYTES);

	if (n > 0) {
		w->host->output(w->host->ctx, w->chunk, (size_t)n);
		keep_tail(w, (size_t)n);
	} else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close_fd(&w->out_fd);
	}
	return n > 0 ? (size_t)n : 0;
}

/* Nothing of the run is left, so this ends; bounded in case a stranger was
 * given the pipe. */
static void
drain_output(struct watch *w)
{
	size_t total = 0, n = 1;

	while (w->out_fd >= 0 && n > 0 && total < DRAIN_BYTES) {
		n = take_output(w);
		total += n;
	}
}

static void
pass_on_stop(struct watch *w)
{
	w->stop = w->host->stop(w->host->ctx);
	w->stop_fd = -1; /* it stays readable */
	keeper_stop_run(&w->run);
	w->late_us = clock_mono_us() + w->kill_grace_us + LATE_US;
}

static void
say_if_late(struct watch *w)
{
	if (clock_mono_us() < w->late_us)
		return;
	w->late_us = CLOCK_NEVER;
	w->host->log(w->host->ctx, "was killed and has not ended yet; its task stays running until it has");
}

/* True: the end of the socket. */
static bool
take_message(struct watch *w)
{
	struct keeper_msg m;
	ssize_t n = recv(w->run.fd, &m, sizeof m, MSG_DONTWAIT);

	if (n < 0)
		return errno != EAGAIN && errno != EINTR;
	if (n != (ssize_t)sizeof m)
		return true;
	m.where[sizeof m.where - 1] = '\0';
	if (m.event == KEEPER_GONE)
		w->gone = true;
	else
		w->last = m;
	return false;
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
		say_if_late(w);
		if (p[0].revents != 0)
			take_output(w);
		if (p[1].revents != 0)
			over = take_message(w);
		if (p[2].revents != 0)
			pass_on_stop(w);
	}
	if (!w->gone)
		keeper_await_end(k, w->run.life);
	drain_output(w);
}

/* The last line of the output that is not blank, "" if there is none; changes the tail. */
static const char *
last_line(struct watch *w)
{
	size_t end = w->tail_len, start;

	while (end > 0 && strchr(" \t\r\n", w->tail[end - 1]) != NULL)
		end--;
	for (start = end; start > 0 && w->tail[start - 1] != '\n'; start--)
		;
	if (end == 0)
		return "";
	memmove(w->tail, w->tail + start, end - start);
	if (end - start == TAIL_BYTES)
		end--;
	w->tail[end - start] = '\0';
	return w->tail;
}

static const char *
why_stopped(enum pgrab_stop stop)
{
	switch (stop) {
	case PGRAB_STOP_TIMEOUT: return "timed out";
	case PGRAB_STOP_CANCEL: return "cancelled";
	case PGRAB_STOP_FENCED: return "stopped: the node lost its lease";
	case PGRAB_STOP_SHUTDOWN: return "stopped with its node";
	case PGRAB_STOP_NONE: break;
	}
	return "stopped";
}

static void
explain_exit(struct watch *w, struct pgrab_result *result)
{
	int status = w->last.value;
	bool by_signal = WIFSIGNALED(status);
	int sig = by_signal ? WTERMSIG(status) : 0;
	const char *name = sigdescr_np(sig), *line = last_line(w), *colon = line[0] == '\0' ? "" : ": ";

	result->has_exit_code = true;
	result->exit_code = by_signal ? 128 + sig : WEXITSTATUS(status);
	if (w->last.why == KEEPER_BY_WORKER)
		result_fail(result, "%s", why_stopped(w->stop));
	else if (w->last.why == KEEPER_BY_LEASE)
		result_fail(result, "%s", why_stopped(PGRAB_STOP_FENCED));
	else if (w->last.why == KEEPER_BY_NODE_DEATH)
		result_fail(result, "stopped: the keeper process was killed");
	else if (w->last.memory_kills > 0 && (by_signal || WEXITSTATUS(status) != 0))
		result_fail(result, "killed for memory: it used more than args.limits or job_limits allow");
	else if (by_signal)
		result_fail(result, "killed by signal %d (%s)%s%s", sig, name == NULL ? "real-time" : name,
		    colon, line);
	else if (WEXITSTATUS(status) != 0)
		result_fail(result, "exit code %d%s%s", WEXITSTATUS(status), colon, line);
	else
		result->succeeded = true;
}

/* What the system refuses today it may grant tomorrow: no attempt of the
 * task's.  A program that is not there is one.  So is a stop, or the task would
 * come back after it was cancelled. */
static void
explain_no_start(const struct watch *w, const char *program, struct pgrab_result *result)
{
	const struct keeper_msg *m = &w->last;

	if (w->stop != PGRAB_STOP_NONE) {
		result_fail(result, "%s", why_stopped(w->stop));
		return;
	}
	if (strcmp(m->where, "lease") == 0) {
		result->not_started = true;
		result_fail(result, "could not start: the node's lease is over");
		return;
	}
	if (strcmp(m->where, "limits") == 0) {
		result_fail(result, "could not start: this node can not keep limits of processes and cpu (%s)",
		    strerrordesc_np(m->value));
		return;
	}
	result->not_started =
	    m->value == EAGAIN || m->value == ENOMEM || m->value == EMFILE || m->value == ENFILE;
	result_fail(result, "could not start: %s (%s %s)", strerror(m->value), m->where, program);
}

/* The shim's end without its last word.  What was started can not be known, so it counts as an attempt. */
static void
explain_silence(const struct watch *w, struct pgrab_result *result)
{
	if (w->stop == PGRAB_STOP_NONE)
		result_fail(result, "the process that watched over the run was killed; how "
				    "the run ended is unknown");
	else
		result_fail(result, "%s", why_stopped(w->stop));
}

static void
explain(struct watch *w, const struct child_plan *p, struct pgrab_result *result)
{
	char line[100];

	switch ((enum keeper_event)w->last.event) {
	case KEEPER_EXITED: explain_exit(w, result); break;
	case KEEPER_NOT_STARTED:
		explain_no_start(w, strcmp(w->last.where, "chdir") == 0 && p->cwd != NULL ? p->cwd : p->argv.item[0], result);
		break;
	case KEEPER_STARTED:
	case KEEPER_GONE:
	default: explain_silence(w, result); break;
	}
	if (w->last.leftovers > 0) {
		snprintf(
		    line, sizeof line, "killed %d processes that the run left behind", w->last.leftovers);
		w->host->log(w->host->ctx, line);
	}
}

static void
carry_out(
    struct child *c, const struct child_plan *p, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct watch w = {.host = host,
	    .chunk = c->chunk,
	    .run = {.fd = -1},
	    .out_fd = -1,
	    .stop_fd = host->stop_fd,
	    .kill_grace_us = c->env->kill_grace_us,
	    .late_us = CLOCK_NEVER};
	struct err err = {0};
	enum rc rc = start(c, p, &w.out_fd, &w.run, &err);

	if (rc == RC_OK) {
		watch_run(&w, c->env->keeper);
		explain(&w, p, result);
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
	struct child_plan plan;
	struct err err = {0};
	enum rc rc = child_plan_make(
	    &plan, cmd->argv, cmd->takes_argv, (const char *const *)c->around->env, run, &err);

	plan.script = cmd->script;
	if (rc == RC_OK)
		carry_out(c, &plan, host, result);
	else
		result_fail(result, "%s", err.text);
	child_plan_fini(&plan);
}
