/*
 * One run after the other, each from its request until the last of its processes is gone.
 *
 *     RUNNING --- a reason to stop: TERM to all ---> ENDING --- kill_grace over ---> KILLING --- none left
 *        \_____________ the main process has ended: KILL to what is left ______________/
 *
 * As the subreaper we inherit whatever the run leaves behind, so that "no child to wait for" means that
 * nothing is left at all, and each death that changes whom we have to kill comes with a SIGCHLD.  The loop
 * therefore never reads /proc to find out whether anything is left, only to find whom to signal.
 *
 * While nothing happens the lease is looked at twice a second even if it has not passed: it can be taken back
 * (keeper_lease with 0), and poll stands still while the machine is suspended.
 *
 * Nothing here may block: not on the worker (messages go without waiting), not on a log (there is none).
 */
#include "keeper/shim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "keeper/keeper.h"
#include "keeper/launch.h"
#include "keeper/proctree.h"

#define LEASE_TICK_US (500 * US_PER_MS)
#define KILL_TICK_US  (200 * US_PER_MS) /* a process may be unable to die yet: waiting for a dead disk, say */

enum phase { RUNNING, ENDING, KILLING };

/* One run; a shim keeps nothing from one to the next. */
struct shim {
	const struct shim_setup *setup;
	int line_fd;
	int fd[WIRE_FD__COUNT]; /* -1: none */
	enum phase phase;
	enum keeper_why why;
	int64_t kill_at_us; /* ENDING: on the boot clock */
	int64_t walk_at_us; /* KILLING: no look at all processes before that, */
	bool walk_put_off;  /* but one at that time */
	pid_t main;
	bool main_ended;
	int status; /* of main */
	int leftovers;
	struct launch_failed failed;
	struct cgroup group;
	int memory_kills;
	int64_t cpu_us, memory_bytes;
};

/* False: the system had no room for it.  The worker may be gone, which is not our business. */
static bool
tell(const struct shim *s, enum keeper_event event, int value, const char *where)
{
	struct keeper_msg m = {.event = (int32_t)event,
	    .value = value,
	    .shim = getpid(),
	    .why = (int32_t)s->why,
	    .leftovers = s->leftovers,
	    .memory_kills = s->memory_kills,
	    .cpu_us = s->cpu_us,
	    .memory_bytes = s->memory_bytes};

	snprintf(m.where, sizeof m.where, "%s", where);
	return send(s->fd[WIRE_FD_RUN], &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0 || errno == EPIPE ||
	       errno == ECONNRESET;
}

static bool
lease_passed(const struct shim *s)
{
	return clock_boot_us() >= atomic_load(s->setup->lease);
}

/* Whom a shim listens to.  After RUNNING only the children can tell it anything new. */
enum { NEWS_CHILD, NEWS_WORKER, NEWS_NODE, NEWS_KEEPER, NEWS__COUNT };

/* Waits for news, at most for timeout_ms, and returns a reason to end the run, or KEEPER_BY_ITSELF. */
static enum keeper_why
watch(struct shim *s, int timeout_ms)
{
	const struct shim_setup *u = s->setup;
	bool all = s->phase == RUNNING;
	struct pollfd news[NEWS__COUNT] = {
	    [NEWS_CHILD] = {.fd = u->sigchld_fd, .events = POLLIN},
	    [NEWS_WORKER] = {.fd = all ? s->fd[WIRE_FD_RUN] : -1, .events = POLLIN},
	    [NEWS_NODE] = {.fd = all ? u->lifeline_fd : -1, .events = POLLIN},
	    [NEWS_KEEPER] = {.fd = all ? u->keeper_pidfd : -1, .events = POLLIN},
	};
	char drain[1024];

	if (poll(news, NEWS__COUNT, timeout_ms) < 0)
		return KEEPER_BY_ITSELF; /* not now; the loop comes back */
	if (news[NEWS_CHILD].revents != 0 && read(u->sigchld_fd, drain, sizeof drain) < 0 && errno != EAGAIN)
		_exit(1);
	if (news[NEWS_NODE].revents != 0 || news[NEWS_KEEPER].revents != 0)
		return KEEPER_BY_NODE_DEATH;
	if (news[NEWS_WORKER].revents != 0) {
		/* It never writes: it has closed its end, or half of it. */
		return KEEPER_BY_WORKER;
	}
	return all && lease_passed(s) ? KEEPER_BY_LEASE : KEEPER_BY_ITSELF;
}

/* A child that is dead and not yet reaped; 0: none now; -1: there are no children at all. */
static pid_t
find_dead(void)
{
	siginfo_t info = {0};

	if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
		return -1; /* ECHILD: nothing else can be wrong here */
	return info.si_pid;
}

/* What a process has used includes its children that it has waited for; the others come to us. */
static void
add_cost(struct shim *s, const struct rusage *used)
{
	int64_t memory = (int64_t)used->ru_maxrss * 1024;

	s->cpu_us += (used->ru_utime.tv_sec + used->ru_stime.tv_sec) * US_PER_S + used->ru_utime.tv_usec +
		     used->ru_stime.tv_usec;
	if (memory > s->memory_bytes)
		s->memory_bytes = memory;
}

/* As long as the main process is not reaped its id is still that of its group, so the whole group can be
 * killed at once, which not even a fork escapes.  So each dead child is first found and then reaped by its
 * id: a main process that dies in between must not slip through. */
static void
reap_one(struct shim *s, pid_t pid)
{
	struct rusage used;
	int status;

	if (pid == s->main && s->phase == RUNNING) {
		kill(-s->main, SIGKILL);
		s->phase = KILLING;
	}
	if (s->phase == KILLING)
		proctree_kill_group(pid);
	if (wait4(pid, &status, 0, &used) != pid)
		return;
	add_cost(s, &used);
	if (pid == s->main) {
		s->main_ended = true;
		s->status = status;
	} else if (s->main_ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		s->leftovers++;
	}
}

/* Takes note of the dead, and chases what the last of them has left, which may be dead a moment
 * later and have left something itself.  False: nothing is left. */
static bool
reap(struct shim *s)
{
	pid_t pid, last = 0;

	while ((pid = find_dead()) > 0) {
		reap_one(s, pid);
		last = pid;
	}
	if (last != 0 && s->phase == KILLING)
		proctree_chase(last, NULL, NULL);
	return pid == 0;
}

int64_t
shim_kill_at_us(const struct shim_setup *setup, int64_t now_us)
{
	int64_t lease = atomic_load(setup->lease);

	return (lease < now_us ? lease : now_us) + setup->kill_grace_us;
}

/* CONT, so that a stopped process can act on the TERM. */
static void
begin_ending(struct shim *s, enum keeper_why why)
{
	s->phase = ENDING;
	s->why = why;
	s->kill_at_us = shim_kill_at_us(s->setup, clock_boot_us());
	proctree_signal(getpid(), SIGTERM, NULL, NULL);
	proctree_signal(getpid(), SIGCONT, NULL, NULL);
}

/* With many processes a look at all of them takes long, and a run that forks and exits all the time has moved
 * on by then.  What catches it is the chase after each death (reap), so half of the time is left for that. */
static void
walk(struct shim *s)
{
	int64_t begun = clock_boot_us(), ended;

	s->walk_put_off = begun < s->walk_at_us;
	if (s->walk_put_off)
		return;
	proctree_kill(getpid(), NULL, NULL);
	ended = clock_boot_us();
	s->walk_at_us = ended + (ended - begun);
}

static void
act(struct shim *s, enum keeper_why why)
{
	if (s->phase == RUNNING && why != KEEPER_BY_ITSELF)
		begin_ending(s, why);
	if (s->phase == ENDING && clock_boot_us() >= s->kill_at_us)
		s->phase = KILLING;
	if (s->phase == KILLING) {
		if (!s->main_ended)
			kill(-s->main, SIGKILL);
		cgroup_kill(&s->group);
		walk(s);
	}
}

static int
until_next_look_ms(const struct shim *s)
{
	int64_t now = clock_boot_us();
	int64_t next = now + LEASE_TICK_US;
	int64_t then = next;

	if (s->phase == RUNNING)
		then = atomic_load(s->setup->lease);
	else if (s->phase == ENDING)
		then = s->kill_at_us;
	else
		then = s->walk_put_off ? s->walk_at_us : now + KILL_TICK_US;
	return clock_poll_ms(now, then < next ? then : next);
}

/* What stands in the way of the run. */
static bool
refuse(struct shim *s, int error, const char *where)
{
	s->failed.error = error;
	snprintf(s->failed.where, sizeof s->failed.where, "%s", where);
	return false;
}

/* False: refused. */
static bool
start_main(struct shim *s, const struct wire_spec *spec)
{
	struct launch l = {.spec = spec,
	    .shim = getpid(),
	    .stdin_fd = s->fd[WIRE_FD_STDIN],
	    .script_fd = s->fd[WIRE_FD_SCRIPT],
	    .output_fd = s->fd[WIRE_FD_OUTPUT],
	    .nofile = s->setup->nofile,
	    .group = &s->group,
	    .failed = &s->failed};

	/* A run whose limits need no group does without one. */
	if (!cgroup_make(&s->setup->groups, getpid(), &spec->limits, &s->group) &&
	    (spec->limits.processes != 0 || spec->limits.cpu_percent != 0))
		return refuse(s, errno, "limits");
	s->main = vfork();
	if (s->main == 0)
		launch(&l);
	if (s->main < 0)
		return refuse(s, errno, "fork");
	/* The child shared our memory (vfork), so its change of uid has set this to the system's default. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	/* By now it has executed the program or given up.  (Or a signal has ended it before; that counts as
	 * started.) */
	if (s->failed.error == 0)
		(void)tell(s, KEEPER_STARTED, s->main, "");
	return true;
}

static void
close_fds(struct shim *s, int first, int last)
{
	for (int i = first; i <= last; i++)
		close_fd(&s->fd[i]);
}

/* Returns when nothing is left. */
static void
supervise(struct shim *s)
{
	for (;;) {
		enum keeper_why why = watch(s, until_next_look_ms(s));

		if (!reap(s))
			return;
		act(s, why);
	}
}

/* False: refused. */
static bool
start(struct shim *s)
{
	enum keeper_why why = watch(s, 0); /* the request may have waited while the keeper was frozen */
	struct wire_spec spec = {0};
	bool started = false;

	s->why = why;
	if (why != KEEPER_BY_ITSELF)
		(void)refuse(s, ECANCELED, why == KEEPER_BY_LEASE ? "lease" : "stop");
	else if (wire_unpack(s->fd[WIRE_FD_SPEC], &spec) != RC_OK)
		(void)refuse(s, EIO, "spec");
	else
		started = start_main(s, &spec);
	wire_spec_fini(&spec);
	/* Our copies would keep the pipe open after its last writer. */
	close_fds(s, WIRE_FD_SPEC, WIRE_FD__COUNT - 1);
	return started;
}

/* To the keeper first, or it would make another shim for what the worker asks for next.  When we end in
 * between it still speaks for this run. */
static void
report(const struct shim *s, bool again)
{
	bool failed = s->failed.error != 0;
	const char idle = SHIM_IDLE;

	if (again)
		(void)send(s->line_fd, &idle, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (!tell(s, failed ? KEEPER_NOT_STARTED : KEEPER_EXITED, failed ? s->failed.error : s->status,
		s->failed.where))
		_exit(1);
}

/* False: there will be no more. */
static bool
carry_out_one(const struct shim_setup *setup, int line_fd)
{
	struct shim s = {.setup = setup,
	    .line_fd = line_fd,
	    .fd = {-1, -1, -1, -1, -1},
	    .group = {.fd = -1, .base_fd = -1}};
	int n_fds = wire_receive(line_fd, s.fd);
	bool again;

	if (n_fds < 0)
		return n_fds == -1;
	if (n_fds == 0)
		_exit(1); /* not even the socket of the run, to say so */
	if (n_fds <= WIRE_FD_OUTPUT)
		(void)refuse(&s, EMFILE, "fork"); /* the kernel dropped what we had no room for */
	else if (start(&s))
		supervise(&s);
	if (s.status != 0) /* else nobody asks */
		s.memory_kills = cgroup_memory_kills(&s.group);
	s.memory_bytes = cgroup_memory_peak(&s.group, s.memory_bytes);
	/* Descriptors and processes that were refused to us another shim may get: somebody may have set
	 * limits for this one.  What is left of a control group would be the next run's. */
	again = cgroup_remove(&s.group) && s.failed.error != EMFILE && s.failed.error != EAGAIN;
	report(&s, again);
	close_fds(&s, WIRE_FD_RUN, WIRE_FD__COUNT - 1);
	return again;
}

void
shim_main(const struct shim_setup *setup, int line_fd)
{
	struct pollfd news[] = {{.fd = line_fd, .events = POLLIN},
	    {.fd = setup->lifeline_fd, .events = POLLIN}, {.fd = setup->keeper_pidfd, .events = POLLIN}};

	prctl(PR_SET_NAME, "pgrab-shim");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
		_exit(1);
	while (poll(news, sizeof news / sizeof *news, -1) >= 0 || errno == EINTR) {
		if (news[1].revents != 0 || news[2].revents != 0)
			_exit(0);
		if (!carry_out_one(setup, line_fd))
			_exit(0);
	}
	_exit(1);
}
