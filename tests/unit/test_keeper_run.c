/*
 * What a run is given, what it is told to stop by, and what its worker hears of
 * it.
 */
#include "keeper_harness.h"

#include <pthread.h>
#include <sys/mman.h>

static void
keeper_runs_a_program_and_reports_its_end(void **state)
{
	struct trial t = trial_sh(keeper, "echo out; echo err >&2");
	struct keeper_msg m;

	assert_true(expect_started(&t) > 1);
	m = expect_exited(&t);
	assert_true(WIFEXITED(m.value) && WEXITSTATUS(m.value) == 0);
	assert_int_equal(m.why, KEEPER_BY_ITSELF);
	assert_int_equal(m.leftovers, 0);
	expect_output(&t, "out\nerr\n");
	trial_end(&t);
}

static void
keeper_reports_exit_codes_and_signals(void **state)
{
	struct trial a = trial_sh(keeper, "exit 3"), b = trial_sh(keeper, "kill -SEGV $$");
	struct keeper_msg m;

	expect_started(&a);
	m = expect_exited(&a);
	assert_true(WIFEXITED(m.value) && WEXITSTATUS(m.value) == 3);
	expect_started(&b);
	m = expect_exited(&b);
	assert_true(WIFSIGNALED(m.value) && WTERMSIG(m.value) == SIGSEGV);
	trial_end(&a);
	trial_end(&b);
}

static void
expect_refused(const char *program, const char *argument, const char *cwd, int error, const char *where)
{
	const char *const argv[] = {program, argument, NULL};
	struct trial t = trial_of(
	    keeper, (struct keeper_spec){.argv = argv, .env = plain_env, .cwd = cwd, .stdin_fd = -1});

	expect_not_started(&t, error, where);
	expect_output(&t, "");
	trial_end(&t);
}

static void
keeper_says_why_a_program_did_not_start(void **state)
{
	char *large = malloc(200001);

	memset(large, 'x', 200000); /* one string may have 128 KiB */
	large[200000] = '\0';
	expect_refused("/no/such/program", NULL, NULL, ENOENT, "exec");
	expect_refused("no-such-program", NULL, NULL, ENOENT, "exec");
	expect_refused("", NULL, NULL, ENOENT, "exec");
	expect_refused("/etc/passwd", NULL, NULL, EACCES, "exec");
	expect_refused("/tmp", NULL, NULL, EACCES, "exec");
	expect_refused("/bin/true", NULL, "/no/such/folder", ENOENT, "chdir");
	expect_refused("/bin/true", large, NULL, E2BIG, "exec");
	free(large);
}

/* No shell takes over what the kernel cannot execute. */
static void
keeper_executes_no_file_without_a_format(void **state)
{
	char path[] = "/tmp/pgrab_test_keeper.XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "echo shell\n", 11), 11);
	assert_int_equal(fchmod(fd, 0755), 0);
	close(fd);
	expect_refused(path, NULL, NULL, ENOEXEC, "exec");
	expect_refused(strrchr(path, '/') + 1, NULL, "/tmp", ENOENT, "exec"); /* nor is the folder searched */
	unlink(path);
}

static void
keeper_refuses_more_than_a_mebibyte(void **state)
{
	char *part = malloc(100001);
	const char *argv[13] = {
	    "/bin/true", part, part, part, part, part, part, part, part, part, part, part, NULL};
	struct keeper_spec spec = {.argv = argv, .env = plain_env, .stdin_fd = -1, .output_fd = 2};
	struct keeper_run run;
	struct trial t;
	struct err err = {0};

	memset(part, 'x', 100000);
	part[100000] = '\0';
	assert_int_equal(keeper_spawn(keeper, &spec, &run, &err), RC_BAD);
	assert_int_equal(run.fd, -1);
	argv[10] = NULL;
	t = trial_of(keeper, spec);
	expect_started(&t);
	expect_exited(&t);
	trial_end(&t);
	free(part);
}

static void
run_gets_its_input_and_its_folder(void **state)
{
	const char *const argv[] = {"sh", "-c", "cat; pwd", NULL}; /* found by PATH */
	struct keeper_spec spec = {
	    .argv = argv, .env = plain_env, .cwd = "/usr", .stdin_fd = memfd_create("in", MFD_CLOEXEC)};
	struct trial t;

	assert_int_equal(write(spec.stdin_fd, "in\nput\n", 7), 7);
	assert_int_equal(lseek(spec.stdin_fd, 0, SEEK_SET), 0);
	t = trial_of(keeper, spec);
	expect_started(&t);
	expect_output(&t, "in\nput\n/usr\n");
	expect_exited(&t);
	trial_end(&t);
	close(spec.stdin_fd);
}

static void
run_gets_exactly_its_environment(void **state)
{
	const char *const env[] = {"A=1 2", "EMPTY=", "PATH=/bin", NULL};
	const char *const argv[] = {"/usr/bin/env", NULL};
	struct trial t = trial_of(keeper, (struct keeper_spec){.argv = argv, .env = env, .stdin_fd = -1});

	expect_output(&t, "A=1 2\nEMPTY=\nPATH=/bin\n");
	trial_end(&t);
}

static void
run_gets_nothing_by_default(void **state)
{
	const char *const none[] = {NULL};
	const char *const env[] = {"/usr/bin/env", NULL}, *const cat[] = {"/bin/cat", NULL};
	struct trial t = trial_of(keeper, (struct keeper_spec){.argv = env, .env = none, .stdin_fd = -1});

	expect_started(&t);
	expect_output(&t, "");
	expect_exited(&t);
	trial_end(&t);
	t = trial_of(keeper, (struct keeper_spec){.argv = cat, .env = none, .stdin_fd = -1});
	expect_output(&t, "");
	trial_end(&t);
}

static void
expect_from(const char *program, const char *a, const char *b, const char *c, const char *want)
{
	const char *const argv[] = {program, a, b, c, NULL};
	struct trial t =
	    trial_of(keeper, (struct keeper_spec){.argv = argv, .env = plain_env, .stdin_fd = -1});

	expect_output(&t, want);
	trial_end(&t);
}

static void
run_has_clean_surroundings(void **state)
{
	struct trial t = trial_sh(keeper, "umask; pwd; cut -d' ' -f5,6 /proc/$$/stat");
	char want[100];
	pid_t pid = expect_started(&t);

	snprintf(want, sizeof want, "0077\n/\n%d %d\n", (int)pid, (int)pid);
	expect_output(&t, want);
	trial_end(&t);
	expect_from("/bin/sed", "-n", "/^Sig[BI]/p; /^NoNew/p", "/proc/self/status",
	    "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nNoNewPrivs:\t1\n");
	expect_from(
	    "/bin/ls", "/proc/self/fd", NULL, NULL, "0\n1\n2\n3\n"); /* 3 is the folder that it reads */
}

static void
output_of_any_size_and_bytes_arrives_whole(void **state)
{
	struct trial t = trial_sh(keeper, "head -c 10000000 /dev/zero; printf '\\377\\001end'");
	struct buf b = {0};

	expect_started(&t);
	do
		read_until(t.out_fd, &b, NULL);
	while (b.len == 0);
	assert_int_equal(b.len, 10000005);
	assert_memory_equal(b.data + 10000000, "\377\001end", 5);
	expect_exited(&t);
	buf_fini(&b);
	trial_end(&t);
}

static void
stop_is_term_for_all_of_the_run(void **state)
{
	struct trial t = trial_sh(keeper, "setsid sleep 100 & echo $!; wait");
	int64_t at = clock_mono_us();
	struct keeper_msg m;
	pid_t behind;

	expect_started(&t);
	behind = read_pid(t.out_fd);
	stop_run(&t);
	m = expect_exited(&t);
	assert_true(WIFSIGNALED(m.value) && WTERMSIG(m.value) == SIGTERM);
	assert_int_equal(m.why, KEEPER_BY_WORKER);
	assert_true(dead_within(behind, 0));
	assert_true(clock_mono_us() - at < 10 * US_PER_S);
	trial_end(&t);
}

static void
stop_is_kill_after_the_grace_for_the_deaf(void **state)
{
	struct trial t = trial_sh(keeper, "trap '' TERM; (setsid sleep 100 &); echo ready; sleep 100");
	struct buf b = {0};
	struct keeper_msg m;
	int64_t at;

	expect_started(&t);
	read_until(t.out_fd, &b, "ready");
	at = clock_mono_us();
	stop_run(&t);
	m = expect_exited(&t);
	assert_true(WIFSIGNALED(m.value) && WTERMSIG(m.value) == SIGKILL);
	assert_int_equal(m.why, KEEPER_BY_WORKER);
	assert_true(clock_mono_us() - at >= GRACE_US);
	buf_fini(&b);
	trial_end(&t);
}

/* The shell dies of TERM at once; what it started still has its grace. */
static void
stop_leaves_time_to_clean_up_behind_the_shell(void **state)
{
	struct trial t = trial_sh(keeper,
	    "sh -c 'trap \"sleep 0.05; echo cleaned; exit\" TERM; sleep 100 & echo ready; wait' & wait");
	struct buf b = {0};

	expect_started(&t);
	read_until(t.out_fd, &b, "ready\n");
	stop_run(&t);
	expect_exited(&t);
	read_until(t.out_fd, &b, NULL);
	assert_non_null(strstr(buf_str(&b), "cleaned\n"));
	buf_fini(&b);
	trial_end(&t);
}

static void
stop_reaches_a_stopped_process(void **state)
{
	struct trial t = trial_sh(keeper, "echo $$; kill -STOP $$");
	struct keeper_msg m;

	expect_started(&t);
	read_pid(t.out_fd);
	stop_run(&t);
	m = expect_exited(&t);
	assert_true(WIFSIGNALED(m.value));
	trial_end(&t);
}

static void
closing_the_run_socket_ends_the_run(void **state)
{
	struct trial t = trial_sh(keeper, "trap '' TERM; echo $$; sleep 100");
	pid_t pid;

	expect_started(&t);
	pid = read_pid(t.out_fd);
	close(t.run_fd);
	expect_dead(pid);
	expect_output(&t, "");
	close(t.out_fd);
}

static void
what_a_run_leaves_behind_is_killed_before_the_report(void **state)
{
	/* The main process goes on, and ends, when the daemon is deaf and has said its id. */
	struct trial t = trial_sh(keeper,
	    "exec 3>&1; { setsid sh -c 'trap \"\" TERM; echo $$ >&3; echo ready; sleep 100; :' & } | read x; "
	    "(sleep 100 &); exit 4");
	struct keeper_msg m;
	pid_t daemon;

	expect_started(&t);
	daemon = read_pid(t.out_fd);
	m = expect_exited(&t);
	assert_true(dead_within(daemon, 0));
	assert_true(WIFEXITED(m.value) && WEXITSTATUS(m.value) == 4);
	assert_int_equal(m.why, KEEPER_BY_ITSELF);
	expect_output(&t, ""); /* the pipe is at its end, no grandchild holds it */
	trial_end(&t);
}

static void
leftovers_are_counted(void **state)
{
	struct trial t = trial_sh(keeper, "sleep 100 & setsid sleep 100 & :");

	expect_started(&t);
	assert_int_equal(expect_exited(&t).leftovers, 2);
	trial_end(&t);
}

/* Each generation forks two more and ends, faster than anybody reads /proc. */
static void
a_run_that_forks_all_the_time_is_killed_in_the_end(void **state)
{
	struct trial t = trial_sh(keeper, "f() { setsid sh -c 'echo x; i=0; while [ $i -lt 200 ]; "
					  "do setsid sleep 100 & i=$((i+1)); done; wait' & }; "
					  "f; f; f; sleep 0.1");

	expect_started(&t);
	expect_exited(&t);
	trial_end(&t);
}

#define BYSTANDERS 1000
/* Many other processes make /proc slow to read. */
static void
a_run_that_hops_is_killed(void **state)
{
	static pid_t bystander[BYSTANDERS];
	struct keeper_msg m;
	struct trial t;
	int64_t at;

	for (int i = 0; i < BYSTANDERS; i++) {
		bystander[i] = fork();
		assert_true(bystander[i] >= 0);
		if (bystander[i] == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
	}
	t = start_hop(keeper);
	stop_run(&t);
	at = clock_mono_us();
	do
		m = next_message(&t);
	while (m.event == KEEPER_STARTED);
	assert_true(m.event == KEEPER_EXITED || m.event == KEEPER_GONE); /* GONE: the keeper caught it */
	print_message("# after the stop it took %d ms\n", (int)((clock_mono_us() - at) / US_PER_MS));
	assert_true(clock_mono_us() - at < GRACE_US + 3 * US_PER_S);
	trial_end(&t);
	for (int i = 0; i < BYSTANDERS; i++) {
		kill(bystander[i], SIGKILL);
		waitpid(bystander[i], NULL, 0);
	}
}

#define THREADS         8
#define RUNS_PER_THREAD 25

static void *
run_many(void *arg)
{
	for (int i = 0; i < RUNS_PER_THREAD; i++) {
		struct trial t = trial_sh(keeper, "(setsid sleep 100 &); echo done");

		expect_started(&t);
		expect_exited(&t);
		expect_output(&t, "done\n");
		trial_end(&t);
	}
	return arg;
}

static struct keeper_msg
expect_run(const struct trial *t)
{
	expect_started(t);
	return expect_exited(t);
}

/* Until only `want` shims are left; those that are not needed end after some seconds. */
static void
await_shims(int want)
{
	int64_t until = clock_mono_us() + PATIENCE_S * US_PER_S;

	while (count_children(keeper_pid(keeper)) > want && clock_mono_us() < until)
		(void)poll(NULL, 0, 50);
	assert_int_equal(count_children(keeper_pid(keeper)), want);
}

static void
a_run_gets_nothing_of_the_one_before(void **state)
{
	const char *const look[] = {"/bin/sh", "-c",
	    "umask; nice; ulimit -v; ulimit -c; pwd; env; trap; cat; ls /proc/self/fd", NULL};
	const char *const mess[] = {
	    "/bin/sh", "-c", "ulimit -c 17; umask 1; trap '' HUP; (sleep 100 &); cat; cat <&3", NULL};
	const char *const other_env[] = {"PATH=/usr/bin:/bin", "OTHER=1", NULL};
	struct keeper_spec plain = {.argv = look, .env = plain_env, .stdin_fd = -1};
	struct keeper_spec odd = {.argv = mess,
	    .env = other_env,
	    .cwd = "/usr",
	    .umask = 07,
	    .nice = 3,
	    .limits = {.memory = 64 * 1024 * 1024}};
	struct trial t = trial_of(keeper, plain);
	struct buf before = {0}, after = {0};
	int fds;
	pid_t shim = expect_run(&t).shim;

	read_until(t.out_fd, &before, NULL);
	trial_end(&t);
	fds = count_fds(shim);
	for (int i = 0; i < 50; i++) {
		odd.stdin_fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
		odd.script_fd = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
		t = trial_of(keeper, odd);
		close(odd.stdin_fd);
		close(odd.script_fd);
		assert_int_equal(expect_run(&t).shim, shim);
		expect_output(&t, "test_keeper_run\ntest_keeper_run\n");
		trial_end(&t);
	}
	t = trial_of(keeper, plain);
	assert_int_equal(expect_run(&t).shim, shim);
	read_until(t.out_fd, &after, NULL);
	assert_string_equal(buf_str(&after), buf_str(&before));
	trial_end(&t);
	assert_in_range(count_fds(shim), fds - 1, fds + 1); /* the last run's socket may be open still */
	assert_int_equal(count_children(shim), 0);
	buf_fini(&before);
	buf_fini(&after);
}

static void
runs_side_by_side_have_shims_of_their_own_and_one_is_kept(void **state)
{
	struct trial t[4];
	pid_t shim[4];

	for (int i = 0; i < 4; i++) {
		t[i] = trial_sh(keeper, "echo $$; cat <&3; sleep 100");
		shim[i] = parent_of(expect_started(&t[i]));
		for (int j = 0; j < i; j++)
			assert_int_not_equal(shim[i], shim[j]);
	}
	for (int i = 0; i < 4; i++) {
		stop_run(&t[i]);
		assert_int_equal(expect_exited(&t[i]).why, KEEPER_BY_WORKER);
		trial_end(&t[i]);
	}
	await_shims(1);
	t[0] = trial_sh(keeper, "exit 0");
	shim[0] = expect_run(&t[0]).shim;
	assert_int_equal(parent_of(shim[0]), keeper_pid(keeper));
	trial_end(&t[0]);
}

static void
two_hundred_runs_of_eight_threads_leave_nothing(void **state)
{
	struct trial last = trial_sh(keeper, "exit 0");
	pthread_t thread[THREADS];
	int ours, theirs;

	expect_run(&last);
	trial_end(&last);
	await_shims(1);
	ours = count_fds(getpid());
	theirs = count_fds(keeper_pid(keeper));
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, run_many, NULL), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	assert_int_equal(count_fds(getpid()), ours);
	await_shims(1);
	last = trial_sh(keeper, "exit 0"); /* by then the keeper has seen the others end */
	expect_run(&last);
	trial_end(&last);
	assert_in_range(count_fds(keeper_pid(keeper)), theirs, theirs + 1); /* this one's may be open still */
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keeper_runs_a_program_and_reports_its_end),
	    cmocka_unit_test(keeper_reports_exit_codes_and_signals),
	    cmocka_unit_test(keeper_says_why_a_program_did_not_start),
	    cmocka_unit_test(keeper_executes_no_file_without_a_format),
	    cmocka_unit_test(keeper_refuses_more_than_a_mebibyte),
	    cmocka_unit_test(run_gets_its_input_and_its_folder),
	    cmocka_unit_test(run_gets_exactly_its_environment),
	    cmocka_unit_test(run_gets_nothing_by_default),
	    cmocka_unit_test(run_has_clean_surroundings),
	    cmocka_unit_test(output_of_any_size_and_bytes_arrives_whole),
	    cmocka_unit_test(stop_is_term_for_all_of_the_run),
	    cmocka_unit_test(stop_is_kill_after_the_grace_for_the_deaf),
	    cmocka_unit_test(stop_leaves_time_to_clean_up_behind_the_shell),
	    cmocka_unit_test(stop_reaches_a_stopped_process),
	    cmocka_unit_test(closing_the_run_socket_ends_the_run),
	    cmocka_unit_test(what_a_run_leaves_behind_is_killed_before_the_report),
	    cmocka_unit_test(leftovers_are_counted),
	    cmocka_unit_test(a_run_that_forks_all_the_time_is_killed_in_the_end),
	    cmocka_unit_test(a_run_that_hops_is_killed),
	    cmocka_unit_test(a_run_gets_nothing_of_the_one_before),
	    cmocka_unit_test(runs_side_by_side_have_shims_of_their_own_and_one_is_kept),
	    cmocka_unit_test(two_hundred_runs_of_eight_threads_leave_nothing),
	};

	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], HOP_ARGV1) == 0)
		return hop();
	become_subreaper();
	return cmocka_run_group_tests(tests, start_keeper, stop_keeper);
}
