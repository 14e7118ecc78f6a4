#include "keeper/shims.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fd.h"
#include "keeper/proctree.h"

#define OVERDUE_US US_PER_S /* what a shim may take beyond its kill_grace; settings.c leaves 2 s for it */
#define IDLE_US    (5 * US_PER_S)

/* Times are of the boot clock. */
struct keeper_shim {
	pid_t pid;
	int line_fd;        /* to it; -1: it gets no more runs */
	int run_fd;         /* its end of the run socket; -1: it is idle */
	int last_fd;        /* that of the run before, whose worker it may not have told yet; -1: none */
	int64_t idle_us;    /* idle: since when */
	int64_t overdue_us; /* it is killed then; 0: all is well */
	bool orphaned;      /* it was killed, processes of its run may be left */
};

static bool
is_shim(pid_t pid, void *ctx)
{
	const struct shims *s = ctx;

	for (size_t i = 0; i < s->count; i++) {
		if (s->item[i].pid == pid && !s->item[i].orphaned)
			return true;
	}
	return false;
}

/* In a new shim: none of what belongs to the keeper or to other runs may stay open here. */
static _Noreturn void
become_shim(struct shims *s, int fds[WIRE_FD__COUNT], size_t n, int line_fd)
{
	close_fd(&s->not_theirs[0]);
	close_fd(&s->not_theirs[1]);
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
	for (size_t i = 0; i < s->count; i++) {
		close_fd(&s->item[i].line_fd);
		close_fd(&s->item[i].run_fd);
		close_fd(&s->item[i].last_fd);
	}
	shim_main(s->setup, line_fd);
}

/* NULL with errno.  The new one gets the request like any other. */
static struct keeper_shim *
make(struct shims *s, int fds[WIRE_FD__COUNT], size_t n)
{
	int line[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line) != 0)
		return NULL;
	pid = fork();
	if (pid == 0) {
		close(line[0]);
		become_shim(s, fds, n, line[1]);
	}
	close_fd(&line[1]);
	if (pid < 0) {
		close_fd(&line[0]);
		return NULL;
	}
	s->item = xrealloc(s->item, (s->count + 1) * sizeof *s->item);
	s->poll = xrealloc(s->poll, 2 * (s->count + 1) * sizeof *s->poll);
	s->item[s->count] = (struct keeper_shim){.pid = pid, .line_fd = line[0], .run_fd = -1, .last_fd = -1};
	return &s->item[s->count++];
}

static bool
is_idle(const struct keeper_shim *k)
{
	return k->line_fd >= 0 && k->run_fd < 0;
}

/* The one that has waited least, so that those that are not needed stay idle. */
static struct keeper_shim *
find_idle(struct shims *s)
{
	struct keeper_shim *found = NULL;

	for (size_t i = 0; i < s->count; i++) {
		if (is_idle(&s->item[i]) && (found == NULL || s->item[i].idle_us > found->idle_us))
			found = &s->item[i];
	}
	return found;
}

/* Of an idle one nothing can be left. */
static void
dismiss(struct keeper_shim *k)
{
	close_fd(&k->line_fd);
	kill(k->pid, SIGKILL); /* it is our child and not yet reaped */
}

static bool
hand_over(struct shims *s, struct keeper_shim *to, const int fds[WIRE_FD__COUNT], size_t n)
{
	struct err err;

	if (wire_send(to->line_fd, fds, n, &err) != RC_OK) {
		dismiss(to);
		return false;
	}
	to->run_fd = fds[WIRE_FD_RUN];
	to->overdue_us = 0;
	s->busy++;
	return true;
}

/* By SIGSTOP, or by a debugger that has let go of it.  The kernel goes on saying so as long as it is. */
static bool
is_stopped(const struct keeper_shim *k)
{
	siginfo_t info = {0};

	return waitid(P_PID, (id_t)k->pid, &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* False with errno. */
static bool
find_shim(struct shims *s, int fds[WIRE_FD__COUNT], size_t n)
{
	struct keeper_shim *k;

	if (find_idle(s) == NULL)
		shims_look(s); /* one may have become idle since the last look */
	while ((k = find_idle(s)) != NULL) {
		if (is_stopped(k))
			dismiss(k);
		else if (hand_over(s, k, fds, n))
			return true; /* else it has died, and we shall hear of it */
	}
	k = make(s, fds, n);
	if (k == NULL || hand_over(s, k, fds, n))
		return k != NULL;
	errno = EAGAIN;
	return false;
}

static void
refuse(int run_fd, int error, const char *where)
{
	struct keeper_msg m = {.event = KEEPER_NOT_STARTED, .value = error};

	snprintf(m.where, sizeof m.where, "%s", where);
	(void)send(run_fd, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void
shims_start(struct shims *s, int fds[WIRE_FD__COUNT], size_t n)
{
	bool there = n > WIRE_FD_OUTPUT; /* else the kernel dropped what we had no room for */
	bool taken = there && find_shim(s, fds, n);

	if (!taken && n > 0)
		refuse(fds[WIRE_FD_RUN], there ? errno : EMFILE, "fork");
	for (size_t i = taken ? WIRE_FD_SPEC : WIRE_FD_RUN; i < n; i++)
		close(fds[i]);
}

/* Nothing of its run is left.  It has told the worker of the run before, and will do so of this one. */
static void
end_run(struct shims *s, struct keeper_shim *k)
{
	close_fd(&k->last_fd);
	k->last_fd = k->run_fd;
	k->run_fd = -1;
	k->idle_us = clock_boot_us();
	s->busy--;
}

/* The message cannot be lost while there is a reader: the socket has room for more than the three that are
 * ever written to it. */
static void
say_gone(int *fd)
{
	const struct keeper_msg m = {.event = KEEPER_GONE};

	if (*fd >= 0)
		(void)send(*fd, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL);
	close_fd(fd);
}

/* It is dead, and nothing is left of its runs. */
static void
forget(struct shims *s, struct keeper_shim *k)
{
	s->busy -= k->run_fd >= 0;
	say_gone(&k->last_fd);
	say_gone(&k->run_fd);
	close_fd(&k->line_fd);
	*k = s->item[--s->count];
}

/* When a run that has to stop from now on must be over: no grace is left when the lease ended long ago. */
static int64_t
overdue_at(const struct shims *s)
{
	return shim_kill_at_us(s->setup, clock_boot_us()) + OVERDUE_US;
}

static void
take_note(struct shims *s, struct keeper_shim *k, bool said, bool hangup)
{
	char word;

	if (said && recv(k->line_fd, &word, 1, MSG_DONTWAIT) != 1)
		close_fd(&k->line_fd); /* it is dead */
	else if (said && k->run_fd >= 0)
		end_run(s, k);
	/* The worker has closed its end, or half of it: the run must end.  That is noted once. */
	if (hangup && k->run_fd >= 0 && k->overdue_us == 0)
		k->overdue_us = overdue_at(s);
}

void
shims_look(struct shims *s)
{
	for (size_t i = 0; i < s->count; i++) {
		s->poll[2 * i] = (struct pollfd){.fd = s->item[i].line_fd, .events = POLLIN};
		s->poll[2 * i + 1] = (struct pollfd){.fd = s->item[i].run_fd, .events = POLLRDHUP};
	}
	if (s->count == 0 || poll(s->poll, 2 * s->count, 0) <= 0)
		return;
	for (size_t i = 0; i < s->count; i++)
		take_note(s, &s->item[i], s->poll[2 * i].revents != 0, s->poll[2 * i + 1].revents != 0);
}

/* One that ended as it should has left nothing.  False: it is none of them. */
static bool
note_dead(struct shims *s, pid_t pid, int status)
{
	for (size_t i = 0; i < s->count; i++) {
		struct keeper_shim *k = &s->item[i];

		if (k->pid != pid || k->orphaned)
			continue;
		if (k->run_fd < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
			forget(s, k);
		} else {
			close_fd(&k->line_fd);
			k->orphaned = true;
			s->orphaned++;
		}
		return true;
	}
	return false;
}

bool
shims_reap(struct shims *s)
{
	pid_t pid, stray = 0;
	bool any = false;
	int status;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (!note_dead(s, pid, status))
			stray = pid;
		any = true;
	}
	if (stray != 0)
		proctree_chase(stray, is_shim, s);
	return any;
}

/* It is all gone when we see none of it, and no process died while we looked (its children might have been
 * missed). */
void
shims_kill_strays(struct shims *s)
{
	size_t found;

	for (size_t i = 0; i < s->count; i++) {
		if (s->item[i].orphaned)
			cgroup_kill_of(&s->setup->groups, s->item[i].pid);
	}
	do
		found = proctree_kill(getpid(), is_shim, s);
	while (shims_reap(s) && found == 0);
	if (found > 0)
		return;
	for (size_t i = s->count; i-- > 0;) {
		if (!s->item[i].orphaned)
			continue;
		cgroup_kill_of(&s->setup->groups, s->item[i].pid); /* it is empty, so this removes it */
		forget(s, &s->item[i]);
	}
	s->orphaned = 0;
}

/* One that has a reason to end its run and does not manage to is frozen: its run is killed in its stead. */
void
shims_check(struct shims *s, bool ending)
{
	int64_t now = clock_boot_us();

	for (size_t i = 0; i < s->count; i++) {
		struct keeper_shim *k = &s->item[i];

		if (k->run_fd < 0 || k->orphaned)
			continue;
		if (k->overdue_us == 0 && ending)
			k->overdue_us = overdue_at(s);
		if (k->overdue_us != 0 && now >= k->overdue_us)
			kill(k->pid, SIGKILL); /* it is our child and not yet reaped */
	}
}

void
shims_retire(struct shims *s, bool all)
{
	int64_t before = clock_boot_us() - IDLE_US;
	const struct keeper_shim *last = find_idle(s);

	for (size_t i = 0; i < s->count; i++) {
		struct keeper_shim *k = &s->item[i];

		if (is_idle(k) && (all || (k != last && k->idle_us < before) || is_stopped(k)))
			dismiss(k);
	}
}
