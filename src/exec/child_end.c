#include "exec/child_end.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "exec/result.h"
#include "keeper/proctree.h"

enum rc
child_start(struct keeper *k, struct keeper_spec *spec, struct keeper_run *run, int *out_fd, struct err *err)
{
	int out[2] = {-1, -1};
	enum rc rc;

	if (pipe2(out, O_CLOEXEC) != 0 || fcntl(out[0], F_SETFL, O_NONBLOCK) != 0)
		rc = err_set(err, RC_AGAIN, "could not make a pipe: %s", strerrordesc_np(errno));
	else {
		spec->output_fd = out[1];
		rc = keeper_spawn(k, spec, run, err);
	}
	close_fd(&out[1]);
	if (rc != RC_OK)
		close_fd(&out[0]);
	*out_fd = out[0];
	return rc;
}

bool
child_end_message(struct child_end *e, int run_fd)
{
	struct keeper_msg m;
	ssize_t n = recv(run_fd, &m, sizeof m, MSG_DONTWAIT);

	if (n < 0)
		return errno != EAGAIN && errno != EINTR;
	if (n != (ssize_t)sizeof m)
		return true;
	m.where[sizeof m.where - 1] = '\0';
	if (m.event == KEEPER_STARTED)
		e->pid = (pid_t)m.value;
	if (m.event != KEEPER_GONE)
		e->last = m;
	e->gone = m.event != KEEPER_STARTED;
	return e->gone;
}

void
child_end_output(struct child_end *e, const char *bytes, size_t n)
{
	size_t add = n < CHILD_TAIL_BYTES ? n : CHILD_TAIL_BYTES;
	size_t keep = e->tail_len < CHILD_TAIL_BYTES - add ? e->tail_len : CHILD_TAIL_BYTES - add;

	memmove(e->tail, e->tail + e->tail_len - keep, keep);
	memcpy(e->tail + keep, bytes + n - add, add);
	e->tail_len = keep + add;
}

size_t
child_end_read(struct child_end *e, int *out_fd, char *bytes, size_t size)
{
	ssize_t n = read(*out_fd, bytes, size);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		close_fd(out_fd);
	if (n <= 0)
		return 0;
	child_end_output(e, bytes, (size_t)n);
	return (size_t)n;
}

/* The last line of the output that is not blank, "" if there is none; changes the tail. */
static const char *
last_line(struct child_end *e, bool *cut_out)
{
	size_t end = e->tail_len, start;

	while (end > 0 && strchr(" \t\r\n", e->tail[end - 1]) != NULL)
		end--;
	for (start = end; start > 0 && e->tail[start - 1] != '\n'; start--)
		;
	*cut_out = start == 0 && e->tail_len == CHILD_TAIL_BYTES;
	if (end == 0)
		return "";
	/* The first byte makes room for the end of the text; and what is left of a character is none. */
	start += *cut_out;
	while (*cut_out && start < end && (e->tail[start] & 0xC0) == 0x80)
		start++;
	memmove(e->tail, e->tail + start, end - start);
	e->tail[end - start] = '\0';
	return e->tail;
}

static void
explain_exit(struct child_end *e, struct pgrab_result *result)
{
	int status = e->last.value;
	bool by_signal = WIFSIGNALED(status), cut;
	int sig = by_signal ? WTERMSIG(status) : 0;
	const char *name = sigdescr_np(sig), *line = last_line(e, &cut),
		   *colon = line[0] == '\0' ? ""
			    : cut           ? ": ..."
					    : ": ";

	result->has_exit_code = true;
	result->exit_code = by_signal ? 128 + sig : WEXITSTATUS(status);
	if (e->last.why == KEEPER_BY_WORKER)
		result_fail(result, "%s", stop_text(e->stop));
	else if (e->last.why == KEEPER_BY_LEASE)
		result_fail(result, "%s", stop_text(PGRAB_STOP_FENCED));
	else if (e->last.why == KEEPER_BY_NODE_DEATH)
		result_fail(result, "stopped: the keeper process was killed");
	else if (e->last.memory_kills > 0 && (by_signal || WEXITSTATUS(status) != 0))
		result_fail(result, "killed for memory: it used more than args.limits or job_limits allow");
	else if (by_signal)
		result_fail(result, "killed by signal %d (%s)%s%s", sig, name == NULL ? "real-time" : name,
		    colon, line);
	else if (WEXITSTATUS(status) != 0)
		result_fail(result, "exit code %d%s%s", WEXITSTATUS(status), colon, line);
	else
		result->succeeded = true;
}

/* What the system refuses now it may grant later, so that is no attempt.  A missing program is one, and so is
 * a stop, or the task would come back after it was cancelled. */
static void
explain_no_start(const struct child_end *e, const char *program, struct pgrab_result *result)
{
	const struct keeper_msg *m = &e->last;

	if (e->stop != PGRAB_STOP_NONE) {
		result_fail(result, "%s", stop_text(e->stop));
		return;
	}
	if (strcmp(m->where, "lease") == 0) {
		result->not_started = true;
		result_fail(result, "could not start: the node's lease is over");
		return;
	}
	if (strcmp(m->where, "limits") == 0) {
		result_fail(result,
		    "could not start: this node cannot enforce limits on processes and cpu (%s)",
		    strerrordesc_np(m->value));
		return;
	}
	result->not_started =
	    m->value == EAGAIN || m->value == ENOMEM || m->value == EMFILE || m->value == ENFILE;
	result_fail(result, "could not start: %s (%s %s)", strerror(m->value), m->where, program);
}

void
child_explain(struct child_end *e, const char *program, const char *cwd, struct pgrab_result *result)
{
	switch ((enum keeper_event)e->last.event) {
	case KEEPER_EXITED: explain_exit(e, result); break;
	case KEEPER_NOT_STARTED:
		explain_no_start(e, strcmp(e->last.where, "chdir") == 0 ? cwd : program, result);
		break;
	case KEEPER_STARTED:
	case KEEPER_GONE:
	default: /* whether anything was started cannot be known, so it counts as an attempt */
		result_fail(result, "%s",
		    e->stop != PGRAB_STOP_NONE
			? stop_text(e->stop)
			: "the process that watched over the run was killed; how the run ended is unknown");
	}
}

static const char *
state_text(char state)
{
	switch (state) {
	case 'D': return "waits in the kernel, for a disk or a network file system (state D)";
	case 'T': return "is frozen (state T)";
	case 't': return "is held by a debugger (state t)";
	case 'Z': return "is dead but not reaped (state Z)";
	case 'R': return "is running (state R)";
	default: return "sleeps";
	}
}

static bool
view(pid_t pid, const char *role, char *out, size_t size)
{
	struct proc_view p;
	bool there = pid > 0 && proc_look(pid, &p);

	if (there)
		snprintf(
		    out, size, "process %d (%s%s), which %s", (int)pid, p.name, role, state_text(p.state));
	return there;
}

void
child_end_waits(pid_t shim, pid_t keeper, char *out, size_t size)
{
	struct proctree below = {0};
	struct proc_view p;
	bool there = shim > 0 && proc_look(shim, &p) && p.state == 'T' && view(shim, "", out, size);

	if (!there && shim > 0 && proctree_below(shim, false, &below) && below.count > 0)
		there = view(below.pid[below.count - 1], "", out, size);
	free(below.pid);
	if (!there && !view(shim, "", out, size) && !view(keeper, ", the keeper", out, size))
		snprintf(out, size, "the keeper, which is not running at the moment");
}
