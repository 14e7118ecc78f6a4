/*
 * The keeper and its shims, with real processes.  This program is its own keeper: keeper_start
 * executes /proc/self/exe.  No test sleeps: each waits for a message, the end of a pipe, or a
 * process to be gone, with a deadline.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "keeper/keeper.h"
#include "keeper/proctree.h"

#define GRACE_US   (300 * US_PER_MS)
#define PATIENCE_S 10

static const char *const plain_env[] = {"PATH=/usr/bin:/bin", "A=b c", NULL};

struct run {
	int run_fd, output_fd;
};

static int
setup(void **state)
{
	const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .will_fd = -1};
	struct keeper *k = NULL;
	struct err err = {0};

	if (keeper_start(&k, &setup, &err) != RC_OK) {
		print_error("%s\n", err.text);
		return -1;
	}
	keeper_lease(k, clock_boot_us() + 3600 * US_PER_S);
	*state = k;
	return 0;
}

static int
teardown(void **state)
{
	struct keeper *k = *state;

	keeper_stop(&k);
	return 0;
}

static struct run
start(struct keeper *k, const char *script)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	struct keeper_spec spec = {.argv = argv, .env = plain_env, .stdin_fd = -1};
	struct err err = {0};
	struct keeper_run started;
	struct run r;
	int out[2];

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	spec.output_fd = out[1];
	assert_int_equal(keeper_spawn(k, &spec, &started, &err), RC_OK);
	r.run_fd = started.fd;
	close(out[1]);
	r.output_fd = out[0];
	return r;
}

static struct keeper_msg
message(int run_fd)
{
	struct pollfd p = {.fd = run_fd, .events = POLLIN};
	struct keeper_msg m = {0};

	assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
	assert_int_equal(recv(run_fd, &m, sizeof m, 0), sizeof m);
	return m;
}

static struct keeper_msg
ended(struct run *r)
{
	struct keeper_msg m = message(r->run_fd);

	if (m.event == KEEPER_STARTED)
		m = message(r->run_fd);
	return m;
}

/* Reads until the end of the pipe: nobody holds it any more. */
static void
output(struct run *r, char *text, size_t size)
{
	size_t n = 0;

	for (;;) {
		struct pollfd p = {.fd = r->output_fd, .events = POLLIN};
		ssize_t got;

		assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
		got = read(r->output_fd, text + n, size - n - 1);
		if (got <= 0)
			break;
		n += (size_t)got;
		assert_true(n + 1 < size);
	}
	text[n] = '\0';
}

/* The first line only; what prints it goes on. */
static long
number_line(struct run *r)
{
	char text[64];
	size_t n = 0;

	while (n + 1 < sizeof text) {
		struct pollfd p = {.fd = r->output_fd, .events = POLLIN};

		assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
		assert_int_equal(read(r->output_fd, text + n, 1), 1);
		if (text[n++] == '\n')
			break;
	}
	text[n] = '\0';
	return strtol(text, NULL, 10);
}

static void
assert_gone(pid_t pid)
{
	struct pollfd p = {.fd = pidfd_open(pid, 0), .events = POLLIN};

	if (p.fd < 0)
		return; /* reaped already */
	assert_int_equal(poll(&p, 1, PATIENCE_S * 1000), 1);
	close(p.fd);
}

static void
finish(struct run *r)
{
	close(r->run_fd);
	close(r->output_fd);
}

/* ---------------------------------------------------------------------------------------------- */

static void
a_run_gets_what_it_was_given_and_reports_its_end(void **state)
{
	char text[4096];
	struct run r = start(*state, "env | sort; pwd; cat; echo err >&2; exit 3");
	struct keeper_msg m = ended(&r);

	assert_int_equal(m.event, KEEPER_EXITED);
	assert_true(WIFEXITED(m.value) && WEXITSTATUS(m.value) == 3);
	assert_int_equal(m.why, KEEPER_BY_ITSELF);
	assert_int_equal(m.leftovers, 0);
	output(&r, text, sizeof text);
	assert_string_equal(text, "A=b c\nPATH=/usr/bin:/bin\nPWD=/\n/\nerr\n");
	finish(&r);
}

static void
a_program_that_is_not_there_is_not_started(void **state)
{
	const char *const argv[] = {"/no/such/program", NULL};
	struct keeper_spec spec = {
	    .argv = argv, .env = plain_env, .stdin_fd = -1, .output_fd = STDERR_FILENO};
	struct err err = {0};
	struct keeper_run run;
	struct keeper_msg m;
	int fd;

	assert_int_equal(keeper_spawn(*state, &spec, &run, &err), RC_OK);
	fd = run.fd;
	m = message(fd);
	assert_int_equal(m.event, KEEPER_NOT_STARTED);
	assert_int_equal(m.value, ENOENT);
	assert_string_equal(m.where, "exec");
	close(fd);
	spec.argv = (const char *const[]){"/bin/true", NULL};
	spec.cwd = "/no/such/folder";
	assert_int_equal(keeper_spawn(*state, &spec, &run, &err), RC_OK);
	m = message(run.fd);
	assert_int_equal(m.event, KEEPER_NOT_STARTED);
	assert_string_equal(m.where, "chdir");
	close(run.fd);
}

static void
what_is_too_large_is_refused(void **state)
{
	char *large = malloc(2 * 1024 * 1024);
	const char *argv[] = {"/bin/true", large, NULL};
	struct keeper_spec spec = {
	    .argv = argv, .env = plain_env, .stdin_fd = -1, .output_fd = STDERR_FILENO};
	struct err err = {0};
	struct keeper_run run;

	memset(large, 'x', 2 * 1024 * 1024);
	large[2 * 1024 * 1024 - 1] = '\0';
	assert_int_equal(keeper_spawn(*state, &spec, &run, &err), RC_BAD);
	large[200 * 1024] = '\0'; /* the kernel takes 128 KiB in one string */
	assert_int_equal(keeper_spawn(*state, &spec, &run, &err), RC_OK);
	assert_int_equal(message(run.fd).value, E2BIG);
	close(run.fd);
	free(large);
}

static void
a_run_that_ignores_term_is_killed_after_the_grace(void **state)
{
	struct run r = start(*state, "trap '' TERM; echo $$; while :; do read x < /dev/zero; done");
	int64_t began;
	struct keeper_msg m;

	assert_true(number_line(&r) > 0);
	began = clock_mono_us();
	assert_int_equal(shutdown(r.run_fd, SHUT_WR), 0);
	m = ended(&r);
	assert_true(WIFSIGNALED(m.value) && WTERMSIG(m.value) == SIGKILL);
	assert_int_equal(m.why, KEEPER_BY_WORKER);
	assert_in_range(clock_mono_us() - began, GRACE_US, GRACE_US + 5 * US_PER_S);
	finish(&r);
}

static void
daemons_of_a_run_end_with_it(void **state)
{
	/* Forked twice, in a session of its own, deaf, and holding the output.  The run ends when
	 * it has spoken. */
	struct run r = start(*state,
	    "x=$( (setsid sh -c 'trap \"\" TERM HUP; echo $$; exec sleep 300 >&2' &) | head -n 1); echo $x");
	pid_t daemon = (pid_t)number_line(&r);
	struct keeper_msg m = ended(&r);
	char text[64];

	assert_true(WIFEXITED(m.value) && WEXITSTATUS(m.value) == 0);
	assert_true(m.leftovers >= 1);
	assert_gone(daemon);
	output(&r, text, sizeof text); /* the pipe has ended */
	finish(&r);
}

static void
the_end_of_the_lease_ends_the_run(void **state)
{
	struct run r = start(*state, "echo $$; exec sleep 300");
	pid_t child = (pid_t)number_line(&r);

	/* A shim sleeps until the deadline it knew; a shorter one comes from the worker's stop.
	 * So: a new, short lease, a new run. */
	keeper_lease(*state, clock_boot_us() + 200 * US_PER_MS);
	struct run late = start(*state, "echo $$; exec sleep 300");
	pid_t other = (pid_t)number_line(&late);
	struct keeper_msg m = ended(&late);

	assert_int_equal(m.why, KEEPER_BY_LEASE);
	assert_gone(other);
	close(r.run_fd); /* the worker has gone: the run goes */
	assert_gone(child);
	close(r.output_fd);
	finish(&late);
}

/* A stand-in for a node, in a process of its own, so that it can be killed or frozen.  Tells the
 * pids of its keeper and child. */
static pid_t
fake_node(int64_t lease_us, pid_t *keeper_out, pid_t *child_out)
{
	int tell[2];
	long pids[2];
	pid_t node;

	assert_int_equal(pipe2(tell, O_CLOEXEC), 0);
	node = fork();
	if (node == 0) {
		const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .will_fd = -1};
		struct keeper *k = NULL;
		struct err err;

		if (keeper_start(&k, &setup, &err) != RC_OK)
			_exit(1);
		keeper_lease(k, clock_boot_us() + lease_us);
		struct run r = start(k, "trap '' TERM; setsid sleep 300 & echo $!; wait; wait");

		pids[0] = keeper_pid(k);
		pids[1] = number_line(&r);
		(void)!write(tell[1], pids, sizeof pids);
		for (;;)
			pause();
	}
	close(tell[1]);
	assert_int_equal(read(tell[0], pids, sizeof pids), sizeof pids);
	close(tell[0]);
	*keeper_out = (pid_t)pids[0];
	*child_out = (pid_t)pids[1];
	return node;
}

static void
nothing_outlives_a_killed_node(void **state)
{
	pid_t keeper, child, node = fake_node(3600 * US_PER_S, &keeper, &child);

	kill(node, SIGKILL);
	waitpid(node, NULL, 0);
	assert_gone(child);
	assert_gone(keeper);
}

static void
nothing_outlives_the_lease_of_a_frozen_node(void **state)
{
	pid_t keeper, child, node = fake_node(500 * US_PER_MS, &keeper, &child);
	int64_t began = clock_mono_us();

	kill(node, SIGSTOP);
	assert_gone(child);
	assert_in_range(clock_mono_us() - began, 0, 5 * US_PER_S);
	assert_int_equal(kill(node, 0), 0); /* it is still there, frozen */
	kill(node, SIGKILL);
	waitpid(node, NULL, 0);
	assert_gone(keeper);
}

static void
nothing_outlives_a_killed_keeper(void **state)
{
	pid_t keeper, child, node = fake_node(3600 * US_PER_S, &keeper, &child);

	kill(keeper, SIGKILL);
	assert_gone(child);
	kill(node, SIGKILL);
	waitpid(node, NULL, 0);
}

static void
nothing_outlives_a_killed_shim(void **state)
{
	struct run r = start(*state, "setsid sleep 300 & echo $!; wait");
	pid_t child = (pid_t)number_line(&r);
	struct proctree shims;
	struct keeper_msg m = message(r.run_fd);

	assert_int_equal(m.event, KEEPER_STARTED);
	assert_true(proctree_below(keeper_pid(*state), true, &shims));
	assert_int_equal(shims.count, 1);
	kill(shims.pid[0], SIGKILL);
	free(shims.pid);
	assert_gone(child);
	assert_gone(m.value);
	assert_int_equal(message(r.run_fd).event, KEEPER_GONE);
	assert_int_equal(recv(r.run_fd, &m, sizeof m, 0), 0); /* and the worker sees the end */
	finish(&r);
}

static unsigned
open_descriptors(pid_t pid)
{
	char path[64];
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
		n += access(path, F_OK) == 0 || faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	}
	return n;
}

static void
two_hundred_runs_leave_neither_descriptors_nor_zombies(void **state)
{
	unsigned mine = open_descriptors(getpid()), keepers = open_descriptors(keeper_pid(*state));
	struct proctree left;

	for (int i = 0; i < 200; i++) {
		struct run r = start(*state, "exit 0");

		assert_int_equal(ended(&r).event, KEEPER_EXITED);
		finish(&r);
	}
	assert_int_equal(open_descriptors(getpid()), mine);
	/* It keeps one shim, the line to it, and the socket of its last run. */
	int64_t until = clock_mono_us() + PATIENCE_S * US_PER_S;

	while (open_descriptors(keeper_pid(*state)) > keepers + 2 && clock_mono_us() < until)
		poll(NULL, 0, 5);
	assert_int_equal(open_descriptors(keeper_pid(*state)), keepers + 2);
	assert_true(proctree_below(keeper_pid(*state), true, &left));
	assert_int_equal(left.count, 1);
	free(left.pid);
}

int
main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);

	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(
		a_run_gets_what_it_was_given_and_reports_its_end, setup, teardown),
	    cmocka_unit_test_setup_teardown(a_program_that_is_not_there_is_not_started, setup, teardown),
	    cmocka_unit_test_setup_teardown(what_is_too_large_is_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		a_run_that_ignores_term_is_killed_after_the_grace, setup, teardown),
	    cmocka_unit_test_setup_teardown(daemons_of_a_run_end_with_it, setup, teardown),
	    cmocka_unit_test_setup_teardown(the_end_of_the_lease_ends_the_run, setup, teardown),
	    cmocka_unit_test(nothing_outlives_a_killed_node),
	    cmocka_unit_test(nothing_outlives_the_lease_of_a_frozen_node),
	    cmocka_unit_test(nothing_outlives_a_killed_keeper),
	    cmocka_unit_test_setup_teardown(nothing_outlives_a_killed_shim, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		two_hundred_runs_leave_neither_descriptors_nor_zombies, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
