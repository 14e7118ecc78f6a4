/*
 * Runs as another user: who they are then, what they have lost, and that the keeper still has them
 * in hand.  Changing the user needs root; elsewhere only the refusal is tried.
 */
#include "keeper_harness.h"

#define NOBODY 65534

static struct keeper *keeper;
static const gid_t groups[] = {1, 7};
static const struct keeper_user other = {
    .set = true, .uid = NOBODY, .gid = NOBODY, .n_groups = 2, .groups = groups};

static void
need_root(void)
{
	if (!keeper_can_switch()) {
		print_message(
		    "# skipped: another user is only for root (or CAP_SETUID, CAP_SETGID, CAP_KILL)\n");
		skip();
	}
}

static struct trial
trial_other(const char *line)
{
	const char *const argv[] = {"/bin/sh", "-c", line, NULL};

	return trial_of(
	    keeper, (struct keeper_spec){.argv = argv, .env = plain_env, .user = other, .stdin_fd = -1});
}

static void
run_is_the_user_with_his_groups_and_nothing_more(void **state)
{
	struct trial t;

	need_root();
	t = trial_other(
	    "id -u; id -g; id -G; grep -E '^(Uid|Gid|Cap[IPEA]|NoNew)' /proc/self/status | tr '\\t' ' '");
	expect_started(&t);
	expect_output(&t, "65534\n65534\n65534 1 7\n"
			  "Uid: 65534 65534 65534 65534\nGid: 65534 65534 65534 65534\n"
			  "CapInh: 0000000000000000\nCapPrm: 0000000000000000\nCapEff: 0000000000000000\n"
			  "CapAmb: 0000000000000000\nNoNewPrivs: 1\n");
	expect_exited(&t);
	trial_end(&t);
}

static void
run_without_a_user_stays_what_the_node_is(void **state)
{
	struct trial t = trial_sh(keeper, "id -u");
	char want[20];

	snprintf(want, sizeof want, "%d\n", (int)geteuid());
	expect_output(&t, want);
	trial_end(&t);
}

static void
run_can_not_enter_what_only_the_node_may(void **state)
{
	char dir[] = "/tmp/pgrab_test_user.XXXXXX"; /* mode 0700, of root */
	const char *const argv[] = {"/bin/true", NULL};
	struct trial t;

	need_root();
	assert_non_null(mkdtemp(dir));
	t = trial_of(keeper,
	    (struct keeper_spec){.argv = argv, .env = plain_env, .cwd = dir, .user = other, .stdin_fd = -1});
	expect_not_started(&t, EACCES, "chdir");
	trial_end(&t);
	assert_int_equal(rmdir(dir), 0);
}

static void
run_of_another_user_can_be_stopped(void **state)
{
	struct keeper_msg m;
	struct trial t;
	pid_t behind;

	need_root();
	t = trial_other("trap '' TERM; setsid sleep 100 & echo $!; while :; do wait; sleep 1; done");
	expect_started(&t);
	behind = read_pid(t.out_fd);
	shutdown(t.run_fd, SHUT_WR);
	m = expect_exited(&t);
	assert_int_equal(m.why, KEEPER_BY_WORKER);
	assert_true(WIFSIGNALED(m.value) && WTERMSIG(m.value) == SIGKILL);
	expect_dead(behind);
	trial_end(&t);
}

/* The kernel clears the signal of the parent's death when the uid changes. */
static void
run_of_another_user_dies_with_its_shim(void **state)
{
	struct trial t;
	pid_t pid, shim;

	need_root();
	t = trial_other("echo $$; exec sleep 100");
	expect_started(&t);
	pid = read_pid(t.out_fd);
	shim = parent_of(pid);
	assert_true(shim > 1 && shim != getpid());
	kill(shim, SIGKILL);
	expect_dead(pid);
	expect_gone(&t);
	trial_end(&t);
}

/* In a process of its own, which has given root up. */
static int
try_without_rights(void)
{
	const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .will_fd = -1};
	const char *const argv[] = {"/bin/true", NULL};
	struct keeper_spec spec = {
	    .argv = argv, .env = plain_env, .user = other, .stdin_fd = -1, .output_fd = 2};
	struct keeper_run run;
	struct keeper_msg m = {0};
	struct keeper *k = NULL;
	struct err err = {0};

	spec.user.uid = spec.user.gid = 1;
	if (geteuid() == 0 && (setgid(NOBODY) != 0 || setuid(NOBODY) != 0))
		return 2;
	if (keeper_can_switch() || keeper_start(&k, &setup, &err) != RC_OK)
		return 3;
	keeper_lease(k, CLOCK_NEVER);
	if (keeper_spawn(k, &spec, &run, &err) != RC_OK || recv(run.fd, &m, sizeof m, 0) != sizeof m)
		return 4;
	close(run.fd);
	keeper_stop(&k);
	return m.event == KEEPER_NOT_STARTED && m.value == EPERM && strcmp(m.where, "user") == 0 ? 0 : 5;
}

static void
without_the_right_nothing_is_started(void **state)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(try_without_rights());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(
		without_the_right_nothing_is_started), /* it forks: first, before there are threads */
	    WITH_KEEPER(run_is_the_user_with_his_groups_and_nothing_more),
	    WITH_KEEPER(run_without_a_user_stays_what_the_node_is),
	    WITH_KEEPER(run_can_not_enter_what_only_the_node_may),
	    WITH_KEEPER(run_of_another_user_can_be_stopped),
	    WITH_KEEPER(run_of_another_user_dies_with_its_shim),
	};

	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);
	become_subreaper();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
