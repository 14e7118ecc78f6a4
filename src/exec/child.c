/*
 * A child process, seen from the worker: three things to wait for (output, the shim, stop) in one poll.
 *
 * The environment is made from nothing: a few plain variables, the task's args.env, and ours last, so that a
 * task cannot fake them.  Nothing of the node's own environment is in it.
 */
#include "exec/child.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
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
#include "exec/result.h"
#include "keeper/keeper.h"

struct child {
	const struct pgrab_host *host;
	int output_fd; /* reading end; -1: ended */
	int run_fd;    /* to the shim */
	bool told;     /* the shim was told to stop */
	struct keeper_msg last;
};

void *
child_open(const void *internal, char *err, size_t err_size)
{
	const struct exec_env *env = internal;

	if (env == NULL || env->keeper == NULL) {
		snprintf(
		    err, err_size, "this node has no keeper process; allow shell or exec in its settings");
		return NULL;
	}
	return (void *)internal; /* never written to */
}

/* --- what the child gets
 * --------------------------------------------------------------------------------------------- */

struct strings {
	char **item;
	size_t count;
};

static void
add_string(struct strings *s, char *owned)
{
	s->item = xrealloc(s->item, (s->count + 2) * sizeof *s->item);
	s->item[s->count++] = owned;
	s->item[s->count] = NULL;
}

static void
free_strings(struct strings *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->item[i]);
	free(s->item);
}

/* A later value of the same name takes the earlier one's place. */
static void
set_variable(struct strings *s, char *owned)
{
	size_t name = strcspn(owned, "=") + 1;

	for (size_t i = 0; i < s->count; i++) {
		if (strncmp(s->item[i], owned, name) == 0) {
			free(s->item[i]);
			s->item[i] = owned;
			return;
		}
	}
	add_string(s, owned);
}

static struct strings
environment(const struct pgrab_run *run)
{
	struct strings s = {0};

	set_variable(&s, xstrdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
	set_variable(&s, xstrdup("LANG=C.UTF-8"));
	set_variable(&s, xstrdup("HOME=/"));
	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "env") == 0 && strchr(run->args[i].value, '=') != NULL)
			set_variable(&s, xstrdup(run->args[i].value));
	}
	set_variable(&s, xasprintf("PGRAB_TASK_ID=%" PRId64, run->task_id));
	set_variable(&s, xasprintf("PGRAB_FIRE_AT=%s", run->fire_at));
	set_variable(&s, xasprintf("PGRAB_ATTEMPT=%" PRId32, run->attempt));
	set_variable(&s, xasprintf("PGRAB_FENCE=%s", run->fence));
	return s;
}

static const char *
argument(const struct pgrab_run *run, const char *key)
{
	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, key) == 0)
			return run->args[i].value;
	}
	return NULL;
}

/* args.stdin in a memfd at its beginning, so that nobody has to feed a pipe.  -1: none; false: the system
 * refused. */
static bool
open_stdin(const struct pgrab_run *run, int *fd_out)
{
	const char *text = argument(run, "stdin");
	size_t n = text == NULL ? 0 : strlen(text);

	*fd_out = -1;
	if (text == NULL)
		return true;
	*fd_out = memfd_create("pgrab-stdin", MFD_CLOEXEC);
	if (*fd_out >= 0 && write(*fd_out, text, n) == (ssize_t)n && lseek(*fd_out, 0, SEEK_SET) == 0)
		return true;
	if (*fd_out >= 0)
		close(*fd_out);
	*fd_out = -1;
	return false;
}

/* --- while it runs
 * --------------------------------------------------------------------------------------------------- */

/* Hands on what is in the pipe, at most one buffer.  False: nothing more now, or ended. */
static bool
read_output(struct child *c)
{
	char bytes[65536];
	ssize_t n = read(c->output_fd, bytes, sizeof bytes);

	if (n > 0) {
		c->host->output(c->host->ctx, bytes, (size_t)n);
		return true;
	}
	if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
		close(c->output_fd);
		c->output_fd = -1;
	}
	return false;
}

/* One message of the shim.  False: it was the last, or the shim is gone. */
static bool
read_message(struct child *c)
{
	struct keeper_msg m;
	ssize_t n = recv(c->run_fd, &m, sizeof m, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n != (ssize_t)sizeof m)
		return false;
	c->last = m;
	return m.event == KEEPER_STARTED;
}

static void
tell_stop(struct child *c)
{
	const char word = KEEPER_STOP;

	c->told = true;
	(void)!send(c->run_fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT); /* if it is gone, its end says so */
}

static void
watch(struct child *c)
{
	for (;;) {
		struct pollfd p[3] = {
		    {.fd = c->run_fd, .events = POLLIN},
		    {.fd = c->output_fd, .events = POLLIN},
		    {.fd = c->told ? -1 : c->host->stop_fd, .events = POLLIN},
		};

		/* No deadline of its own: the shim ends with the lease, whatever happens, and stop_fd wakes
		 * us. */
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			return;
		if (p[1].revents != 0)
			read_output(c);
		if (p[2].revents != 0)
			tell_stop(c);
		if (p[0].revents != 0 && !read_message(c))
			break;
	}
	/* Nothing is left that could write; what is in the pipe is all there will be. */
	while (c->output_fd >= 0 && read_output(c))
		;
}

/* --- what came of it
 * ------------------------------------------------------------------------------------------------- */

static void
explain_stop(const struct child *c, struct pgrab_result *result)
{
	switch (c->host->stop(c->host->ctx)) {
	case PGRAB_STOP_TIMEOUT: result_fail(result, "timed out"); break;
	case PGRAB_STOP_CANCEL: result_fail(result, "cancelled"); break;
	case PGRAB_STOP_SHUTDOWN: result_fail(result, "stopped with its node"); break;
	case PGRAB_STOP_FENCED:
	case PGRAB_STOP_NONE:
	default: result_fail(result, "stopped: the node lost its lease"); break;
	}
}

static void
explain_exit(const struct child *c, struct pgrab_result *result)
{
	int status = c->last.value;
	bool stopped = c->last.why != KEEPER_BY_ITSELF;

	result->has_exit_code = true;
	result->exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	result->succeeded = !stopped && WIFEXITED(status) && WEXITSTATUS(status) == 0;
	if (result->succeeded)
		return;
	if (stopped)
		explain_stop(c, result);
	else if (WIFSIGNALED(status))
		result_fail(
		    result, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		result_fail(result, "exit code %d", WEXITSTATUS(status));
}

static void
explain(const struct child *c, const char *program, struct pgrab_result *result)
{
	switch ((enum keeper_event)c->last.event) {
	case KEEPER_EXITED: explain_exit(c, result); break;
	case KEEPER_NOT_STARTED:
		/* The system was short of something: no fault of the task.  A program that is not there is.
		 */
		result->not_started = c->last.value == EAGAIN || c->last.value == ENOMEM ||
				      c->last.value == EMFILE || c->last.value == ENFILE;
		result_fail(result, "could not start: %s (%s %.200s)", strerror(c->last.value), c->last.where,
		    program);
		break;
	case KEEPER_STARTED:
		result_fail(result, "its watcher was killed; everything it ran was ended");
		break;
	default:
		/* It may have begun before its watcher died: the attempt counts, or an at_most_once task would run again. */
		result_fail(result, "its watcher ended without a word; whether it started is not known");
		break;
	}
}

void
child_run(const struct exec_env *env, const struct pgrab_run *run, const struct pgrab_host *host,
    const char *const *argv, struct pgrab_result *result)
{
	struct child c = {.host = host, .output_fd = -1, .run_fd = -1};
	struct strings vars = environment(run);
	struct keeper_spec spec = {
	    .argv = argv, .env = (const char *const *)vars.item, .cwd = argument(run, "cwd"), .stdin_fd = -1};
	int pipe_fd[2] = {-1, -1};
	struct err err = {0};
	enum rc rc = RC_AGAIN;

	if (!open_stdin(run, &spec.stdin_fd) || pipe2(pipe_fd, O_CLOEXEC) != 0)
		err_set(&err, rc, "could not start: %s", strerror(errno));
	else if (fcntl(pipe_fd[0], F_SETFL, O_NONBLOCK) == 0) {
		spec.output_fd = pipe_fd[1];
		rc = keeper_spawn(env->keeper, &spec, &c.run_fd, &err);
	}
	if (pipe_fd[1] >= 0)
		close(pipe_fd[1]);
	if (spec.stdin_fd >= 0)
		close(spec.stdin_fd);
	c.output_fd = pipe_fd[0];
	if (rc == RC_OK) {
		watch(&c);
		explain(&c, argv[0], result);
		close(c.run_fd);
	} else {
		result->not_started = rc != RC_BAD;
		result_fail(result, "%s", err.text);
	}
	if (c.output_fd >= 0)
		close(c.output_fd);
	free_strings(&vars);
}
