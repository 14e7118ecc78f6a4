/*
 * The keeper process: takes requests, forks a shim for each, and waits for the shims.
 *
 * It is the second line of defence too.  A shim that was killed leaves its run to us, the next
 * subreaper, and a shim that is frozen is killed when what it should have done is overdue.  We hold
 * on to the shim's end of each run socket until nothing of the run is left; then we say so, and let
 * go.  A worker's half-close of its end reaches us as well as the shim.
 *
 * One thread, no log (a full pipe behind stderr must not stop us), all signals blocked: a TERM or
 * INT meant for the node (the terminal's, the service manager's to the whole group) must not end
 * what watches over its runs.  Not dumpable: no run may read our memory or take our descriptors.
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "keeper/cgroup.h"
#include "keeper/proctree.h"
#include "keeper/shim.h"
#include "keeper/wire.h"

#define TICK_US    (500 * US_PER_MS) /* watch.c waits for five of them */
#define OVERDUE_US US_PER_S /* what a shim may take beyond its kill_grace; settings.c leaves 2 s for it */
#define STRAY_US   (50 * US_PER_MS)

struct run {
	pid_t pid;          /* the shim */
	int fd;             /* the shim's end of the run socket */
	int64_t overdue_us; /* boot clock: the shim is killed then; 0: all is well */
	bool orphaned;      /* the shim was killed, processes of the run may be left */
};

struct guard {
	struct shim_setup setup; /* for each shim, except its run's descriptors */
	struct wire_page *page;
	const char *farewell; /* NULL: none, and no will */
	int spawn_fd;         /* -1: no more requests */
	bool node_gone;
	size_t count, orphaned;
	struct run *run;
	struct pollfd *poll; /* count + GUARD__COUNT; made again when a run comes */
};

enum { GUARD_SPAWN, GUARD_NODE, GUARD_CHILD, GUARD__COUNT };

static bool
is_shim(pid_t pid, void *ctx)
{
	const struct guard *g = ctx;

	for (size_t i = 0; i < g->count; i++) {
		if (g->run[i].pid == pid && !g->run[i].orphaned)
			return true;
	}
	return false;
}

/* Nothing of it is left.  (The message cannot be lost while there is a reader: the socket has room for more
 * than the three that are ever written to it.) */
static void
forget(struct guard *g, size_t i)
{
	const struct keeper_msg m = {.event = KEEPER_GONE};

	(void)send(g->run[i].fd, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(g->run[i].fd);
	g->run[i] = g->run[--g->count];
}

/* In the new shim: none of what belongs to the keeper or to other runs may stay
 * open here. */
static _Noreturn void
become_shim(struct guard *g)
{
	close(g->spawn_fd);
	if (g->farewell != NULL)
		close(WIRE_WILL_FD);
	for (size_t i = 0; i < g->count; i++)
		close(g->run[i].fd);
	shim_main(&g->setup);
}

static void
refuse(int run_fd, int error, const char *where)
{
	const struct keeper_msg gone = {.event = KEEPER_GONE};
	struct keeper_msg m = {.event = KEEPER_NOT_STARTED, .value = error};

	snprintf(m.where, sizeof m.where, "%s", where);
	(void)send(run_fd, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)send(run_fd, &gone, sizeof gone, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
add_run(struct guard *g, pid_t pid, int fd)
{
	g->run = xrealloc(g->run, (g->count + 1) * sizeof *g->run);
	g->poll = xrealloc(g->poll, (g->count + 1 + GUARD__COUNT) * sizeof *g->poll);
	g->run[g->count++] = (struct run){.pid = pid, .fd = fd};
}

/* Takes over fds, of which n are there. */
static void
start_run(struct guard *g, int fds[WIRE_FD__COUNT], size_t n)
{
	pid_t pid = -1;

	g->setup.run_fd = fds[WIRE_FD_RUN];
	g->setup.spec_fd = fds[WIRE_FD_SPEC];
	g->setup.output_fd = fds[WIRE_FD_OUTPUT];
	g->setup.stdin_fd = n > WIRE_FD_STDIN ? fds[WIRE_FD_STDIN] : -1;
	g->setup.script_fd = n > WIRE_FD_SCRIPT ? fds[WIRE_FD_SCRIPT] : -1;
	if (n <= WIRE_FD_OUTPUT)
		errno = EMFILE; /* the kernel dropped what we had no room for */
	else
		pid = fork();
	if (pid == 0)
		become_shim(g);
	if (pid > 0)
		add_run(g, pid, fds[WIRE_FD_RUN]);
	else if (n > 0)
		refuse(fds[WIRE_FD_RUN], errno, "fork");
	for (size_t i = pid > 0 ? WIRE_FD_SPEC : WIRE_FD_RUN; i < n; i++)
		close(fds[i]);
}

static void
take_requests(struct guard *g)
{
	int fds[WIRE_FD__COUNT];
	int n;

	while ((n = wire_receive(g->spawn_fd, fds)) >= 0)
		start_run(g, fds, (size_t)n);
	if (n == -2) {
		close(g->spawn_fd);
		g->spawn_fd = -1;
	}
}

/* Takes note of one dead child.  A shim that ended as it should has left
 * nothing. */
static void
note_dead(struct guard *g, pid_t pid, int status)
{
	for (size_t i = 0; i < g->count; i++) {
		if (g->run[i].pid != pid || g->run[i].orphaned)
			continue;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			forget(g, i);
		} else {
			g->run[i].orphaned = true;
			g->orphaned++;
		}
		return;
	}
}

static bool
reap(struct guard *g)
{
	bool any = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		note_dead(g, pid, status);
		any = true;
	}
	return any;
}

/* Kills what killed shims have left to us.  It is all gone when we see none of it, and no process died while
 * we looked (its children might have been missed). */
static void
kill_strays(struct guard *g)
{
	size_t found;

	for (size_t i = 0; i < g->count; i++) {
		if (g->run[i].orphaned)
			cgroup_kill_of(&g->setup.groups, g->run[i].pid);
	}
	do
		found = proctree_kill(getpid(), is_shim, g);
	while (reap(g) && found == 0);
	if (found > 0)
		return;
	for (size_t i = g->count; i-- > 0;) {
		if (!g->run[i].orphaned)
			continue;
		cgroup_kill_of(&g->setup.groups, g->run[i].pid); /* it is empty, so this removes it */
		forget(g, i);
	}
	g->orphaned = 0;
}

/* When a run that has to stop from now on must be over: no grace is left when the lease ended long ago. */
static int64_t
overdue_at(const struct guard *g)
{
	return shim_kill_at_us(&g->setup, clock_boot_us()) + OVERDUE_US;
}

/* A shim that has a reason to end its run and does not manage to is frozen: its run
 * is killed in its stead. */
static void
check_shims(struct guard *g)
{
	int64_t now = clock_boot_us();
	bool ending = g->node_gone || now >= atomic_load(g->setup.lease);

	for (size_t i = 0; i < g->count; i++) {
		struct run *r = &g->run[i];

		if (r->orphaned)
			continue;
		if (r->overdue_us == 0 && ending)
			r->overdue_us = overdue_at(g);
		if (r->overdue_us != 0 && now >= r->overdue_us)
			kill(r->pid, SIGKILL); /* it is our child and not yet reaped */
	}
}

/* The worker has closed its end, or half of it: the run must end.  That is noted once. */
static void
note_hangups(struct guard *g, const struct pollfd *p, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (p[i].revents != 0 && g->run[i].overdue_us == 0)
			g->run[i].overdue_us = overdue_at(g);
	}
}

/* A short sleep: the node watches our tick, the lease can be taken back, and poll stands still
 * while the machine is suspended. */
static int
timeout_ms(const struct guard *g)
{
	return (int)((g->orphaned > 0 ? STRAY_US : TICK_US) / US_PER_MS);
}

static void
round_of_news(struct guard *g)
{
	struct pollfd *p = g->poll;
	char drain[1024];

	p[GUARD_SPAWN] = (struct pollfd){.fd = g->spawn_fd, .events = POLLIN};
	p[GUARD_NODE] = (struct pollfd){.fd = g->node_gone ? -1 : g->setup.lifeline_fd, .events = POLLIN};
	p[GUARD_CHILD] = (struct pollfd){.fd = g->setup.sigchld_fd, .events = POLLIN};
	for (size_t i = 0; i < g->count; i++)
		p[GUARD__COUNT + i] =
		    (struct pollfd){.fd = g->run[i].overdue_us == 0 ? g->run[i].fd : -1, .events = POLLRDHUP};
	atomic_store(&g->page->runs, (int64_t)g->count);
	atomic_fetch_add(&g->page->tick, 1);
	if (poll(p, g->count + GUARD__COUNT, timeout_ms(g)) < 0)
		return;
	note_hangups(g, p + GUARD__COUNT, g->count);
	if (p[GUARD_NODE].revents != 0)
		g->node_gone = true;
	if (p[GUARD_CHILD].revents != 0 && read(g->setup.sigchld_fd, drain, sizeof drain) < 0 &&
	    errno != EAGAIN)
		_exit(1); /* the shims notice */
	reap(g);
	if (g->spawn_fd >= 0 && !g->node_gone)
		take_requests(g);
}

static void
serve(struct guard *g)
{
	while (!g->node_gone || g->count > 0) {
		round_of_news(g);
		check_shims(g);
		if (g->orphaned > 0)
			kill_strays(g);
	}
}

/* Descriptors of ours must not run out before those of the node do; children
 * get the old limit. */
static void
raise_limit(struct rlimit *old)
{
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, old) != 0)
		abort();
	more = *old;
	more.rlim_cur = more.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &more);
}

/* False: we were not started by keeper_start. */
static bool
set_up(struct guard *g, const char *kill_grace)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t all, child;
	char *end;

	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0)
		return false;
	if (null > STDERR_FILENO)
		close(null);
	g->spawn_fd = WIRE_SPAWN_FD;
	g->setup.lifeline_fd = WIRE_LIFELINE_FD;
	g->setup.kill_grace_us = strtoll(kill_grace, &end, 10);
	g->page = mmap(NULL, WIRE_PAGE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, WIRE_PAGE_FD, 0);
	if (*end != '\0' || g->page == MAP_FAILED)
		return false;
	g->setup.lease = &g->page->lease;
	close(WIRE_PAGE_FD);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	signal(SIGCHLD, SIG_DFL); /* were it ignored, nothing would be left to wait for */
	g->setup.sigchld_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	g->setup.keeper_pidfd = pidfd_open(getpid(), 0);
	raise_limit(&g->setup.nofile);
	g->poll = xcalloc(GUARD__COUNT, sizeof *g->poll);
	return g->setup.sigchld_fd >= 0 && g->setup.keeper_pidfd >= 0 &&
	       prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* The node is dead and nothing of its runs is left: this process becomes the program that says so. */
static void
say_farewell(const struct guard *g)
{
	char text[4][32];
	char *const argv[] = {(char *)"pgrab", (char *)g->farewell, text[0], text[1], text[2], text[3], NULL};
	char *const env[] = {NULL};
	int64_t who[2] = {
	    atomic_load(&g->page->who[0].incarnation), atomic_load(&g->page->who[1].incarnation)};

	if (g->farewell == NULL || (who[0] == 0 && who[1] == 0))
		return;
	for (int i = 0; i < 2; i++) {
		snprintf(text[2 * i], sizeof text[0], "%" PRId64, atomic_load(&g->page->who[i].node_id));
		snprintf(text[2 * i + 1], sizeof text[0], "%" PRId64, who[i]);
	}
	close(WIRE_PRESENCE_FD);
	(void)fcntl(WIRE_WILL_FD, F_SETFD, 0);
	execve("/proc/self/exe", argv, env);
}

int
keeper_main(int argc, char **argv)
{
	struct guard g = {0};
	char word = WIRE_READY;

	(void)prctl(PR_SET_DUMPABLE, 0);
	if (argc < 4 || argc > 5 || fcntl(WIRE_SPAWN_FD, F_GETFD) < 0 || !set_up(&g, argv[2])) {
		fputs("pgrab: " KEEPER_ARGV1
		      " is how a node starts its own helper; it is of no use by hand\n",
		    stderr);
		return 2;
	}
	g.farewell = argv[4]; /* NULL at the end of argv */
	prctl(PR_SET_NAME, "pgrab-keeper");
	setsid(); /* out of reach of the terminal's signals; fails if it is a leader
		   * already, which is just as well */
	if (chdir("/") != 0)
		return 1;
	g.setup.groups = (struct cgroup_base){.fd = -1};
	if (strcmp(argv[3], "cgroups") == 0)
		cgroup_base_open(&g.setup.groups, getppid());
	if (send(g.spawn_fd, &word, 1, MSG_NOSIGNAL) == 1)
		serve(&g);
	if (g.node_gone)
		say_farewell(&g);
	free(g.run);
	free(g.poll);
	return 0;
}
