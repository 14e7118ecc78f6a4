/*
 * The shim: one process per run, between keeper and child.
 *
 * It is subreaper, so everything the run forks, daemons too, stays below it; nothing else ever is.  It waits
 * for five things: a word from the worker, the end of the lease, the death of the node, the death of the
 * keeper, and its children.  The first four end the run: TERM to everything, and KILL when kill_grace has
 * passed.  When the main process has ended, what is left is killed at once.  It reports only when nothing is
 * left, so "exited" means that another node may start the task without overlap.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/keeper.h"
#include "keeper/proctree.h"
#include "keeper/wire.h"

#define SWEEP_US (50 * US_PER_MS) /* between two rounds of KILL, when no child says that it died */

struct shim {
	const struct shim_order *o;
	int children_fd; /* signalfd of SIGCHLD */
	pid_t child;
	bool main_ended;
	int status;
	enum keeper_why why;
	int64_t kill_at_us; /* clock_boot_us; 0: not stopping */
	int leftovers;
	bool worker_gone;
};

struct failure {
	int error;
	char where[32];
};

/* Never blocks: the worker may be frozen, and its socket full. */
static void
report(struct shim *s, const struct keeper_msg *m)
{
	(void)!send(s->o->fd[WIRE_FD_RUN], m, sizeof *m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static _Noreturn void
fail(int errno_fd, const char *where)
{
	struct failure f = {.error = errno};

	strncpy(f.where, where, sizeof f.where - 1);
	(void)!write(errno_fd, &f, sizeof f);
	_exit(127);
}

struct spec {
	const char *cwd;
	char **argv, **env;
};

/* The strings stay in the mapping; the arrays are allocated: we are a process of one thread. */
static bool
read_spec(int fd, struct spec *out)
{
	struct stat st;
	struct wire_spec head;
	char *map, *p, *end;

	if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof head + 1 ||
	    st.st_size > WIRE_SPEC_MAX + (off_t)sizeof head)
		return false;
	map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (map == MAP_FAILED)
		return false;
	memcpy(&head, map, sizeof head);
	p = map + sizeof head;
	end = map + st.st_size;
	if (end[-1] != '\0' || head.argc < 1 || head.envc < 0 || head.argc > WIRE_SPEC_MAX ||
	    head.envc > WIRE_SPEC_MAX)
		return false;
	out->cwd = p;
	p += strlen(p) + 1;
	out->argv = calloc((size_t)head.argc + 1, sizeof *out->argv);
	out->env = calloc((size_t)head.envc + 1, sizeof *out->env);
	if (out->argv == NULL || out->env == NULL)
		return false;
	for (int i = 0; i < head.argc + head.envc; i++) {
		if (p >= end)
			return false;
		*(i < head.argc ? &out->argv[i] : &out->env[i - head.argc]) = p;
		p += strlen(p) + 1;
	}
	return true;
}

static void
restore_signals(void)
{
	sigset_t none;

	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child: becomes the task. */
static _Noreturn void
become(const struct shim_order *o, const struct spec *spec, pid_t shim, int errno_fd)
{
	int in = o->fd[WIRE_FD_STDIN];

	restore_signals();
	/* The shim dies: the child dies.  One thread forked us, so the signal means what it says. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != shim)
		_exit(127);
	if (setsid() < 0)
		fail(errno_fd, "setsid");
	if (in < 0)
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in < 0 || dup2(in, 0) < 0 || dup2(o->fd[WIRE_FD_OUTPUT], 1) < 0 ||
	    dup2(o->fd[WIRE_FD_OUTPUT], 2) < 0)
		fail(errno_fd, "dup");
	if (close_range(3, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
		fail(errno_fd, "close_range");
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	umask(077);
	if (chdir(spec->cwd[0] != '\0' ? spec->cwd : "/") != 0)
		fail(errno_fd, "chdir");
	environ = spec->env;
	execvp(spec->argv[0], spec->argv);
	fail(errno_fd, "exec");
}

/* Forks and executes.  False: nothing runs, and the worker knows why. */
static bool
launch(struct shim *s, const struct spec *spec)
{
	struct keeper_msg m = {.event = KEEPER_NOT_STARTED};
	struct failure f = {0};
	int errno_pipe[2];
	pid_t self = getpid();
	ssize_t n;

	strcpy(m.where, "fork");
	if (pipe2(errno_pipe, O_CLOEXEC) != 0) {
		m.value = errno;
		report(s, &m);
		return false;
	}
	s->child = fork();
	if (s->child == 0)
		become(s->o, spec, self, errno_pipe[1]);
	m.value = errno;
	close(errno_pipe[1]);
	if (s->child < 0) {
		report(s, &m);
		return false;
	}
	while ((n = read(errno_pipe[0], &f, sizeof f)) < 0 && errno == EINTR)
		;
	close(errno_pipe[0]);
	if (n == (ssize_t)sizeof f) {
		m.value = f.error;
		memcpy(m.where, f.where, sizeof m.where);
		waitpid(s->child, NULL, 0);
		report(s, &m);
		return false;
	}
	m = (struct keeper_msg){.event = KEEPER_STARTED, .value = s->child};
	report(s, &m);
	return true;
}

static void
stop_run(struct shim *s, enum keeper_why why)
{
	if (s->kill_at_us != 0)
		return;
	s->why = why;
	s->kill_at_us = clock_boot_us() + s->o->kill_grace_us;
	proctree_signal(getpid(), SIGTERM, NULL, 0);
}

/* Collects the dead.  True: nothing is left below us. */
static bool
reap(struct shim *s)
{
	struct signalfd_siginfo ignored[8];
	int status;
	pid_t pid;

	while (read(s->children_fd, ignored, sizeof ignored) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid == s->child) {
			s->main_ended = true;
			s->status = status;
		}
	}
	return pid < 0 && errno == ECHILD;
}

static void
sweep(struct shim *s)
{
	int n = proctree_signal(getpid(), SIGKILL, NULL, 0);

	if (s->main_ended && n > s->leftovers)
		s->leftovers = n;
}

/* Until when there is nothing to do but to wait, clock_boot_us. */
static int64_t
next_look(const struct shim *s, int64_t now, int64_t lease)
{
	if (s->main_ended)
		return now + SWEEP_US;
	if (s->kill_at_us == 0)
		return lease;
	return s->kill_at_us > now ? s->kill_at_us : now + SWEEP_US;
}

/* Who spoke?  Descriptors that have ended are not asked again. */
static void
listen_to(struct shim *s, struct pollfd p[4])
{
	char word;

	if (p[1].revents != 0) {
		ssize_t n = recv(p[1].fd, &word, 1, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			s->worker_gone = true;
		if (n >= 0)
			stop_run(s, KEEPER_BY_WORKER);
	}
	if (p[2].revents != 0 || p[3].revents != 0)
		stop_run(s, KEEPER_BY_NODE_DEATH);
}

static void
watch(struct shim *s)
{
	for (;;) {
		int64_t now = clock_boot_us(), lease = atomic_load(&s->o->lease->until_boot_us);
		bool stopping = s->kill_at_us != 0 || s->main_ended;

		if (reap(s))
			return;
		if (!stopping && now >= lease)
			stop_run(s, KEEPER_BY_LEASE);
		if (s->main_ended || (s->kill_at_us != 0 && now >= s->kill_at_us))
			sweep(s);
		stopping = s->kill_at_us != 0 || s->main_ended;

		struct pollfd p[4] = {
		    {.fd = s->children_fd, .events = POLLIN},
		    {.fd = stopping || s->worker_gone ? -1 : s->o->fd[WIRE_FD_RUN], .events = POLLIN},
		    {.fd = stopping ? -1 : WIRE_LIFELINE, .events = POLLIN},
		    {.fd = stopping ? -1 : s->o->keeper_alive_fd, .events = POLLIN},
		};

		if (poll(p, 4, clock_poll_ms(now, next_look(s, now, lease))) > 0)
			listen_to(s, p);
	}
}

void
shim_main(const struct shim_order *order)
{
	struct shim s = {.o = order};
	struct spec spec;
	sigset_t child;

	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	prctl(PR_SET_NAME, "pgrab-shim", 0, 0, 0);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	s.children_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s.children_fd < 0 || !read_spec(order->fd[WIRE_FD_SPEC], &spec)) {
		struct keeper_msg m = {.event = KEEPER_NOT_STARTED, .value = errno, .where = "shim"};

		report(&s, &m);
		_exit(1);
	}
	if (!launch(&s, &spec))
		_exit(0);
	/* The child has its own: the pipe has to end with the run. */
	close(order->fd[WIRE_FD_OUTPUT]);
	watch(&s);

	struct keeper_msg m = {
	    .event = KEEPER_EXITED, .value = s.status, .why = (int32_t)s.why, .leftovers = s.leftovers};

	report(&s, &m);
	_exit(0);
}
