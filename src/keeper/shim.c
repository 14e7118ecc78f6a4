/*
 * One run, from fork until the last of its processes is gone.
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
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/keeper.h"
#include "keeper/launch.h"
#include "keeper/proctree.h"

#define LEASE_TICK_US (500 * US_PER_MS)
#define KILL_TICK_US  (200 * US_PER_MS) /* a process may be unable to die yet: waiting for a dead disk, say */

#define CHASE_ROUNDS 1000 /* of microseconds each */

enum phase { RUNNING, ENDING, KILLING };

struct shim {
	const struct shim_setup *setup;
	enum phase phase;
	enum keeper_why why;
	int64_t kill_at_us; /* ENDING: on the boot clock */
	int64_t walk_at_us; /* KILLING: no look at all processes before that, */
	bool walk_put_off;  /* but one at that time */
	pid_t main;
	bool main_ended;
	int status; /* of main */
	int leftovers;
	int failed_fd;               /* what launch() says; -1 once it has been read */
	struct launch_failed failed; /* error 0: exec succeeded */
	struct cgroup group;
	int memory_kills;
};

static void
tell(const struct shim *s, enum keeper_event event, int value, const char *where)
{
	struct keeper_msg m = {.event = (int32_t)event,
	    .value = value,
	    .why = (int32_t)s->why,
	    .leftovers = s->leftovers,
	    .memory_kills = s->memory_kills};

	snprintf(m.where, sizeof m.where, "%s", where);
	(void)send(s->setup->run_fd, &m, sizeof m, MSG_DONTWAIT | MSG_NOSIGNAL); /* the worker may be gone */
}

static bool
lease_passed(const struct shim *s)
{
	return clock_boot_us() >= atomic_load(s->setup->lease);
}

/* End of file without a message: exec closed the pipe.  (Or a signal ended the child before that; the two
 * look alike, and count as started.) */
static void
note_launch(struct shim *s)
{
	ssize_t n;

	if (s->failed_fd < 0)
		return;
	n = read(s->failed_fd, &s->failed, sizeof s->failed);
	if (n < 0)
		return;
	close(s->failed_fd);
	s->failed_fd = -1;
	if (s->failed.error == 0)
		tell(s, KEEPER_STARTED, s->main, "");
}

/* Whom a shim listens to.  After RUNNING only the children can tell it anything new. */
enum { NEWS_CHILD, NEWS_LAUNCH, NEWS_WORKER, NEWS_NODE, NEWS_KEEPER, NEWS__COUNT };

/* Waits for news, at most for timeout_ms, and returns a reason to end the run,
 * or KEEPER_BY_ITSELF. */
static enum keeper_why
watch(struct shim *s, int timeout_ms)
{
	const struct shim_setup *u = s->setup;
	bool all = s->phase == RUNNING;
	struct pollfd news[NEWS__COUNT] = {
	    [NEWS_CHILD] = {.fd = u->sigchld_fd, .events = POLLIN},
	    [NEWS_LAUNCH] = {.fd = s->failed_fd, .events = POLLIN},
	    [NEWS_WORKER] = {.fd = all ? u->run_fd : -1, .events = POLLIN},
	    [NEWS_NODE] = {.fd = all ? u->lifeline_fd : -1, .events = POLLIN},
	    [NEWS_KEEPER] = {.fd = all ? u->keeper_pidfd : -1, .events = POLLIN},
	};
	char drain[1024];

	if (poll(news, NEWS__COUNT, timeout_ms) < 0)
		return KEEPER_BY_ITSELF; /* not now; the loop comes back */
	if (news[NEWS_CHILD].revents != 0 && read(u->sigchld_fd, drain, sizeof drain) < 0 && errno != EAGAIN)
		_exit(1);
	if (news[NEWS_LAUNCH].revents != 0)
		note_launch(s);
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

/*
 * As long as the main process is not reaped its id is still that of its group, so the whole group can be
 * killed at once, which not even a fork escapes.  So each dead child is first found and then reaped by its
 * id: a main process that dies in between must not slip through.
 */
static void
reap_one(struct shim *s, pid_t pid)
{
	int status;

	if (pid == s->main && s->phase == RUNNING) {
		kill(-s->main, SIGKILL);
		s->phase = KILLING;
	}
	if (s->phase == KILLING)
		proctree_kill_group(pid);
	if (waitpid(pid, &status, 0) != pid)
		return;
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

	for (int round = 0; round < CHASE_ROUNDS; round++) {
		while ((pid = find_dead()) > 0) {
			reap_one(s, pid);
			last = pid;
		}
		if (pid < 0)
			return false;
		if (s->phase != KILLING || last == 0 || !proctree_chase(last))
			break;
	}
	return true;
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

/*
 * With many processes a look at all of them takes long, and a run that forks and exits all the time has moved
 * on by then.  What catches it is the chase after each death (reap), so half of the time is left for that.
 */
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

/* False: the limits cannot be enforced here.  A run without limits does without a group. */
static bool
make_group(struct shim *s, const struct keeper_limits *limits)
{
	return cgroup_make(&s->setup->groups, getpid(), limits, &s->group) ||
	       (limits->processes == 0 && limits->cpu_percent == 0);
}

/* False: told the worker why not. */
static bool
start_main(struct shim *s, const struct wire_spec *spec)
{
	const struct shim_setup *u = s->setup;
	struct launch l = {.spec = spec,
	    .shim = getpid(),
	    .stdin_fd = u->stdin_fd,
	    .script_fd = u->script_fd,
	    .output_fd = u->output_fd,
	    .nofile = u->nofile,
	    .group = &s->group};
	int p[2];

	if (!make_group(s, &spec->limits)) {
		tell(s, KEEPER_NOT_STARTED, errno, "limits");
		return false;
	}

	if (pipe2(p, O_CLOEXEC | O_NONBLOCK) != 0) {
		tell(s, KEEPER_NOT_STARTED, errno, "pipe");
		return false;
	}
	l.failed_fd = fcntl(p[1], F_DUPFD_CLOEXEC, KEEPER_ANSWER_FD + 1);
	close(p[1]);
	if (l.failed_fd < 0) {
		tell(s, KEEPER_NOT_STARTED, errno, "pipe");
		return false;
	}
	s->failed_fd = p[0];
	s->main = vfork();
	if (s->main == 0)
		launch(&l);
	/* The child shared our memory (vfork), so its change of uid has set this to the system's default. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (s->main < 0)
		tell(s, KEEPER_NOT_STARTED, errno, "fork");
	close(l.failed_fd);
	return s->main > 0;
}

/* Our copies would keep the pipe open after its last writer. */
static void
let_go(const struct shim_setup *u)
{
	close(u->spec_fd);
	close(u->output_fd);
	if (u->stdin_fd >= 0)
		close(u->stdin_fd);
	if (u->script_fd >= 0)
		close(u->script_fd);
}

static void
supervise(struct shim *s)
{
	for (;;) {
		enum keeper_why why = watch(s, until_next_look_ms(s));

		if (!reap(s))
			break;
		act(s, why);
	}
	note_launch(s);
	s->memory_kills = cgroup_memory_kills(&s->group);
	cgroup_remove(&s->group);
	if (s->failed.error != 0)
		tell(s, KEEPER_NOT_STARTED, s->failed.error, s->failed.where);
	else
		tell(s, KEEPER_EXITED, s->status, "");
}

void
shim_main(const struct shim_setup *setup)
{
	struct shim s = {.setup = setup, .failed_fd = -1, .group = {.fd = -1, .base_fd = -1}};
	struct wire_spec spec;
	enum keeper_why why;

	prctl(PR_SET_NAME, "pgrab-shim");
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
		tell(&s, KEEPER_NOT_STARTED, errno, "subreaper");
		_exit(0);
	}
	if (wire_unpack(setup->spec_fd, &spec) != RC_OK) {
		tell(&s, KEEPER_NOT_STARTED, EIO, "spec");
		_exit(0);
	}
	why = watch(&s, 0); /* the request may have waited while the keeper was frozen */
	if (why != KEEPER_BY_ITSELF) {
		s.why = why;
		tell(&s, KEEPER_NOT_STARTED, ECANCELED, why == KEEPER_BY_LEASE ? "lease" : "stop");
		_exit(0);
	}
	if (!start_main(&s, &spec)) {
		cgroup_remove(&s.group);
		_exit(0);
	}
	wire_spec_fini(&spec);
	let_go(setup);
	supervise(&s);
	_exit(0);
}
