/*
 * What others do to shims during runs and between them: a run of the node's own user, an administrator, or
 * a system that refuses.  No run is started by halves or twice, and no worker waits forever.
 */
#include "keeper_harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "keeper/proctree.h"
#include "keeper/shim.h"
#include "keeper/wire.h"

static struct trial
trial_with_all_descriptors(void)
{
	const char *const argv[] = {"/bin/sh", "-c", "cat; cat <&3", NULL};
	struct keeper_spec spec = {.argv = argv, .env = plain_env};
	struct trial t;

	spec.stdin_fd = memfd_create("in", MFD_CLOEXEC);
	spec.script_fd = memfd_create("script", MFD_CLOEXEC);
	assert_int_equal(write(spec.stdin_fd, "in\n", 3), 3);
	assert_int_equal(write(spec.script_fd, "script\n", 7), 7);
	lseek(spec.stdin_fd, 0, SEEK_SET);
	lseek(spec.script_fd, 0, SEEK_SET);
	t = trial_of(keeper, spec);
	close(spec.stdin_fd);
	close(spec.script_fd);
	return t;
}

/* What its worker hears last.  The output is whole if it was started. */
static struct keeper_msg
expect_all_or_nothing(const struct trial *t)
{
	struct keeper_msg m = next_message(t);

	if (m.event == KEEPER_STARTED)
		m = next_message(t);
	assert_int_not_equal(m.event, 0);
	expect_output(t, m.event == KEEPER_EXITED ? "in\nscript\n" : "");
	return m;
}

static int
try_run(void)
{
	struct trial t = trial_with_all_descriptors();
	int event = expect_all_or_nothing(&t).event;

	trial_end(&t);
	return event;
}

static void
limit_descriptors(pid_t pid, rlim_t n)
{
	const struct rlimit few = {.rlim_cur = n, .rlim_max = 1024};

	assert_int_equal(prlimit(pid, RLIMIT_NOFILE, &few, NULL), 0);
}

/* Any run of the node's user may do that to its shim. */
static void
a_shim_without_descriptors_costs_one_run_and_no_worker(void **state)
{
	bool refused = false;

	for (rlim_t n = 0; n < 20; n++) {
		limit_descriptors(idle_shim(keeper), n);
		refused |= try_run() != KEEPER_EXITED;
		assert_int_equal(try_run(), KEEPER_EXITED);
	}
	assert_true(refused);
}

/* From "enough" to "none": no run without its input, and in the end the request waits. */
static void
a_keeper_without_descriptors_starts_nothing_by_halves(void **state)
{
	bool waits = false;

	for (rlim_t n = 20; n > 3 && !waits; n--) {
		struct trial t;

		limit_descriptors(keeper_pid(keeper), n);
		t = trial_with_all_descriptors();
		waits = !readable_within(t.run_fd, US_PER_S);
		if (waits)
			limit_descriptors(keeper_pid(keeper), 1024);
		assert_true(expect_all_or_nothing(&t).event == KEEPER_EXITED || !waits);
		trial_end(&t);
	}
	assert_true(waits);
}

static void
await_stopped(pid_t pid)
{
	int64_t until = clock_mono_us() + PATIENCE_S * US_PER_S;
	struct proc_view v = {0};

	while (proc_look(pid, &v) && v.state != 'T' && clock_mono_us() < until)
		(void)poll(NULL, 0, 1);
	assert_int_equal(v.state, 'T');
}

static void
a_shim_that_is_frozen_idle_gets_no_run(void **state)
{
	for (int i = 0; i < 10; i++) {
		pid_t shim = idle_shim(keeper);

		kill(shim, SIGSTOP);
		expect_dead(shim);
		assert_int_equal(try_run(), KEEPER_EXITED);
	}
}

/* The keeper learns of the request and of the frozen shim at the same moment. */
static void
a_request_finds_no_frozen_shim(void **state)
{
	pid_t shim = idle_shim(keeper);
	struct trial t;

	kill(keeper_pid(keeper), SIGSTOP);
	await_stopped(keeper_pid(keeper));
	kill(shim, SIGSTOP);
	await_stopped(shim);
	t = trial_with_all_descriptors();
	kill(keeper_pid(keeper), SIGCONT);
	assert_int_equal(expect_all_or_nothing(&t).event, KEEPER_EXITED);
	trial_end(&t);
}

/* In a process of its own: a shim whose run has a socket without room for the last message. */
static void
a_shim_that_cannot_tell_the_end_leaves_that_to_the_keeper(void **state)
{
	int fds[WIRE_FD__COUNT], line[2], run[2], lifeline[2], status;
	_Atomic int64_t lease = CLOCK_NEVER;
	struct err err = {0};
	sigset_t child;
	pid_t shim;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, line), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, run), 0);
	assert_int_equal(pipe2(lifeline, O_CLOEXEC), 0);
	while (send(run[1], &lease, sizeof lease, MSG_DONTWAIT) > 0)
		;
	fds[WIRE_FD_RUN] = run[1];
	fds[WIRE_FD_OUTPUT] = lifeline[1];
	fds[WIRE_FD_SPEC] = memfd_create("nothing", MFD_CLOEXEC); /* refused, which is an end too */
	shim = fork();
	assert_true(shim >= 0);
	if (shim == 0) {
		struct shim_setup setup = {
		    .lease = &lease, .lifeline_fd = lifeline[0], .groups = {.fd = -1}, .keeper_pidfd = -1};

		sigemptyset(&child);
		sigaddset(&child, SIGCHLD);
		setup.sigchld_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
		shim_main(&setup, line[1]);
	}
	assert_int_equal(wire_send(line[0], fds, WIRE_FD_STDIN, &err), RC_OK);
	expect_dead(shim);
	assert_int_equal(waitpid(shim, &status, 0), shim);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) != 0);
	for (int i = 0; i < 2; i++) {
		close(line[i]);
		close(run[i]);
		close(lifeline[i]);
	}
	close(fds[WIRE_FD_SPEC]);
}

#define THREADS   6
#define STORM_US  (1500 * US_PER_MS)
#define NUDGE_US  (300 * US_PER_MS) /* a worker whose run lasts longer stops it: the shim may be frozen */
#define STRIKE_MS 7

static int64_t storm_until;
static atomic_int runs_done, runs_hit;

/* Runs that say something once.  No assertion of cmocka's: those belong to its own thread. */
static void *
run_in_the_storm(void *arg)
{
	char text[64];
	bool *bad = arg;

	while (clock_mono_us() < storm_until && !*bad) {
		struct trial t = trial_sh(keeper, "(setsid sleep 100 &); echo done");
		struct keeper_msg m = {.event = KEEPER_STARTED};
		ssize_t n;

		while (m.event == KEEPER_STARTED) {
			if (!readable_within(t.run_fd, NUDGE_US))
				stop_run(&t);
			if (!readable_within(t.run_fd, PATIENCE_S * US_PER_S) ||
			    recv(t.run_fd, &m, sizeof m, 0) != (ssize_t)sizeof m)
				m.event = 0;
		}
		n = read(t.out_fd, text, sizeof text); /* nothing has it any more, so this does not wait */
		if (m.event == KEEPER_EXITED && m.why == KEEPER_BY_ITSELF)
			*bad = *bad || n != 5 || memcmp(text, "done\n", 5) != 0;
		else
			*bad = *bad || m.event == 0 || (n != 0 && n != 5);
		*bad = *bad || (n > 0 && read(t.out_fd, text, sizeof text) != 0);
		atomic_fetch_add(m.event == KEEPER_EXITED ? &runs_done : &runs_hit, 1);
		trial_end(&t);
	}
	return NULL;
}

/* Any of them, idle, busy, or just between. */
static void
strike(unsigned *seed)
{
	struct proctree shims;

	proctree_below(keeper_pid(keeper), true, &shims);
	if (shims.count > 0)
		kill(
		    shims.pid[(size_t)rand_r(seed) % shims.count], rand_r(seed) % 4 == 0 ? SIGSTOP : SIGKILL);
	free(shims.pid);
}

static void
shims_are_killed_and_frozen_and_each_run_ends_once(void **state)
{
	static bool bad[THREADS];
	pthread_t thread[THREADS];
	unsigned seed = (unsigned)getpid();

	storm_until = clock_mono_us() + STORM_US;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run_in_the_storm, &bad[i]), 0);
	while (clock_mono_us() < storm_until) {
		strike(&seed);
		(void)poll(NULL, 0, STRIKE_MS);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	print_message(
	    "# %d runs ended, of %d the shim was killed\n", atomic_load(&runs_done), atomic_load(&runs_hit));
	for (int i = 0; i < THREADS; i++)
		assert_false(bad[i]);
	assert_int_equal(try_run(), KEEPER_EXITED);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_shim_that_cannot_tell_the_end_leaves_that_to_the_keeper),
	    WITH_KEEPER(a_shim_without_descriptors_costs_one_run_and_no_worker),
	    WITH_KEEPER(a_keeper_without_descriptors_starts_nothing_by_halves),
	    WITH_KEEPER(a_shim_that_is_frozen_idle_gets_no_run),
	    WITH_KEEPER(a_request_finds_no_frozen_shim),
	    WITH_KEEPER(shims_are_killed_and_frozen_and_each_run_ends_once),
	};

	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);
	become_subreaper();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
