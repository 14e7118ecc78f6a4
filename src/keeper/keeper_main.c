/*
 * The keeper process: takes requests, hands each to a shim (shims.h), and watches over the shims.
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
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/cgroup.h"
#include "keeper/shim.h"
#include "keeper/shims.h"
#include "keeper/wire.h"

#define TICK_US  (500 * US_PER_MS) /* watch.c waits for five of them */
#define STRAY_US (50 * US_PER_MS)

struct guard {
	struct shim_setup setup;
	struct shims shims;
	struct wire_page *page;
	const char *farewell; /* NULL: none, and no will */
	int spawn_fd;         /* -1: no more requests */
	bool node_gone;
};

enum { GUARD_SPAWN, GUARD_NODE, GUARD_CHILD };

/* Else the kernel would drop the socket of a run with its request, and nobody could tell its worker. */
static bool
has_room(const struct guard *g)
{
	int fd = fcntl(g->setup.lifeline_fd, F_DUPFD_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void
take_requests(struct guard *g)
{
	int fds[WIRE_FD__COUNT];
	int n = -1;

	while (has_room(g) && (n = wire_receive(g->spawn_fd, fds)) >= 0)
		shims_start(&g->shims, fds, (size_t)n);
	if (n == -2) {
		close(g->spawn_fd);
		g->spawn_fd = g->shims.not_theirs[0] = -1;
	}
}

/* Never sleeps long: the node watches our tick, the lease can be taken back, and poll stands still while the
 * machine is suspended. */
static void
round_of_news(struct guard *g)
{
	struct pollfd p[] = {{.fd = has_room(g) ? g->spawn_fd : -1, .events = POLLIN},
	    {.fd = g->node_gone ? -1 : g->setup.lifeline_fd, .events = POLLIN},
	    {.fd = g->setup.sigchld_fd, .events = POLLIN}};
	int64_t most_us = g->shims.orphaned > 0 ? STRAY_US : TICK_US;
	char drain[1024];

	atomic_store(&g->page->runs, (int64_t)g->shims.busy);
	atomic_fetch_add(&g->page->tick, 1);
	if (poll(p, sizeof p / sizeof *p, (int)(most_us / US_PER_MS)) < 0)
		return;
	shims_look(&g->shims);
	if (p[GUARD_NODE].revents != 0)
		g->node_gone = true;
	if (p[GUARD_CHILD].revents != 0) {
		if (read(g->setup.sigchld_fd, drain, sizeof drain) < 0 && errno != EAGAIN)
			_exit(1); /* the shims notice */
		(void)shims_reap(&g->shims);
	}
	if (p[GUARD_SPAWN].revents != 0 && !g->node_gone)
		take_requests(g);
}

static void
serve(struct guard *g)
{
	while (!g->node_gone || g->shims.count > 0) {
		round_of_news(g);
		cgroup_base_sweep(&g->setup.groups);
		shims_retire(&g->shims, g->node_gone);
		shims_check(&g->shims, g->node_gone || clock_boot_us() >= atomic_load(g->setup.lease));
		if (g->shims.orphaned > 0)
			shims_kill_strays(&g->shims);
	}
}

/* Descriptors of ours must not run out before those of the node do; children get the old limit. */
static void
raise_limit(struct rlimit *old, const char *nofile)
{
	struct rlimit more;

	if (getrlimit(RLIMIT_NOFILE, old) != 0)
		abort();
	more = *old;
	old->rlim_cur = strtoull(nofile, NULL, 10); /* the node may have raised its own since it began */
	more.rlim_cur = more.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &more);
}

/* The process that started the node may have ignored signals, and exec keeps that.  Here for all runs; by
 * system call, because libc does not let us touch its own two signals, which posix_spawn made ignored.  None
 * gets through: all are blocked. */
static void
plain_signals(void)
{
	static const uint64_t plain[4]; /* the kernel's struct sigaction: SIG_DFL, no flags, no mask */
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	for (int sig = 1; sig <= SIGRTMAX; sig++)
		(void)syscall(
		    SYS_rt_sigaction, sig, plain, NULL, sizeof(uint64_t)); /* KILL and STOP refuse */
}

/* False: we were not started by keeper_start. */
static bool
set_up(struct guard *g, const char *kill_grace, const char *nofile)
{
	int null = open("/dev/null", O_RDWR);
	sigset_t child;
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
	plain_signals();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	g->setup.sigchld_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	g->setup.keeper_pidfd = pidfd_open(getpid(), 0);
	raise_limit(&g->setup.nofile, nofile);
	g->shims = (struct shims){
	    .setup = &g->setup, .not_theirs = {WIRE_SPAWN_FD, g->farewell != NULL ? WIRE_WILL_FD : -1}};
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
	g.farewell = argc == 6 ? argv[5] : NULL;
	if (argc < 5 || argc > 6 || fcntl(WIRE_SPAWN_FD, F_GETFD) < 0 || !set_up(&g, argv[2], argv[4])) {
		fputs("pgrab: " KEEPER_ARGV1
		      " is how a node starts its own helper; it is of no use by hand\n",
		    stderr);
		return 2;
	}
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
	free(g.shims.item);
	free(g.shims.poll);
	free(g.setup.groups.old);
	return 0;
}
