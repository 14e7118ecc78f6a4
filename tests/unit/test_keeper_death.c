/*
 * Whoever dies or freezes, the run dies with its lease: the node, the keeper,
 * the shim, the lease itself.
 */
#include "keeper_harness.h"

/* Deaf to TERM, and with a daemon behind it that is deaf too; prints its own
 * id. */
#define STUBBORN "trap '' TERM; (setsid sh -c 'sleep 100; :' &); echo $$; sleep 100; :"

/* keeper_start's watcher makes one; a look a few times a second, with a deadline. */
static void
await_new_keeper(struct keeper *k, pid_t old)
{
	int64_t until = clock_mono_us() + PATIENCE_S * US_PER_S;
	pid_t now = old;

	while ((now == old || now == 0) && clock_mono_us() < until) {
		(void)poll(NULL, 0, 20);
		now = keeper_pid(k);
	}
	assert_true(now != old && now > 0);
}

static void
lease_that_passes_ends_the_run(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, STUBBORN);
	struct keeper_msg m;
	int64_t until;

	expect_started(&t);
	read_pid(t.out_fd);
	until = clock_boot_us() + 200 * US_PER_MS;
	keeper_lease(k, until);
	m = expect_exited(&t);
	assert_int_equal(m.why, KEEPER_BY_LEASE);
	assert_true(clock_boot_us() >= until + GRACE_US);
	assert_true(clock_boot_us() < until + GRACE_US + 2 * US_PER_S);
	expect_output(&t, "");
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
lease_that_is_renewed_lets_the_run_go_on(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t;
	struct keeper_msg m;

	keeper_lease(k, clock_boot_us() + 400 * US_PER_MS);
	t = trial_sh(k, "echo $$; sleep 0.8; echo end");
	expect_started(&t);
	read_pid(t.out_fd);
	keeper_lease(k, clock_boot_us() + 60 * US_PER_S);
	m = expect_exited(&t);
	assert_int_equal(m.why, KEEPER_BY_ITSELF);
	expect_output(&t, "end\n");
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
lease_that_is_taken_back_ends_the_run(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, "echo $$; sleep 100");

	expect_started(&t);
	read_pid(t.out_fd);
	keeper_lease(k, 0);
	assert_int_equal(expect_exited(&t).why, KEEPER_BY_LEASE);
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
nothing_is_executed_without_a_lease(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t;

	for (int i = 0; i < 20; i++) {
		keeper_lease(k, i % 2 == 0 ? 0 : clock_boot_us());
		t = trial_sh(k, "echo executed");
		expect_not_started(&t, ECANCELED, "lease");
		expect_output(&t, "");
		trial_end(&t);
	}
	keeper_stop(&k);
	expect_nothing_left();
}

/* A keeper that slept through the request must not carry out what its worker
 * has given up. */
static void
nothing_is_executed_for_a_worker_that_has_gone(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t;

	kill(keeper_pid(k), SIGSTOP);
	t = trial_sh(k, "echo executed");
	close(t.run_fd);
	kill(keeper_pid(k), SIGCONT);
	expect_output(&t, "");
	close(t.out_fd);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
a_frozen_keeper_blocks_nobody(void **state)
{
	const char *const argv[] = {"/bin/true", NULL};
	struct keeper_spec spec = {.argv = argv, .env = plain_env, .stdin_fd = -1, .output_fd = 2};
	struct keeper *k = keeper_for_test();
	static struct keeper_run runs[2000];
	enum rc rc = RC_OK;
	struct err err;
	size_t n = 0;

	kill(keeper_pid(k), SIGSTOP);
	while (n < sizeof runs / sizeof *runs && rc == RC_OK) {
		rc = keeper_spawn(k, &spec, &runs[n], &err);
		n += rc == RC_OK;
	}
	assert_int_equal(rc, RC_AGAIN);
	while (n > 0)
		close(runs[--n].fd);
	kill(keeper_pid(k), SIGCONT);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
signals_to_the_group_do_not_end_the_keeper(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, "echo $$; sleep 100");
	pid_t shim = parent_of(expect_started(&t));
	const int deadly[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGALRM};

	read_pid(t.out_fd);
	for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
		kill(keeper_pid(k), deadly[i]);
		kill(shim, deadly[i]);
	}
	assert_false(readable_within(t.run_fd, 0));
	close(t.run_fd);
	close(t.out_fd);
	t = trial_sh(k, "echo works");
	expect_output(&t, "works\n");
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
stopping_the_keeper_ends_every_run_in_time(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t[4];
	int64_t at;

	for (int i = 0; i < 4; i++) {
		t[i] = trial_sh(k, STUBBORN);
		expect_started(&t[i]);
		read_pid(t[i].out_fd);
	}
	at = clock_mono_us();
	keeper_stop(&k);
	assert_null(k);
	assert_true(clock_mono_us() - at < GRACE_US + 2 * US_PER_S);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* at its return, not some time later */
	for (int i = 0; i < 4; i++) {
		expect_output(&t[i], "");
		trial_end(&t[i]);
	}
	keeper_stop(&k);
}

/* A new keeper takes over; the old one's runs end with their grace, and that is known when it is so. */
static void
death_of_the_keeper_ends_its_runs_and_a_new_one_takes_over(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, STUBBORN);
	pid_t first = keeper_pid(k), run;
	int64_t at;

	expect_started(&t);
	run = read_pid(t.out_fd);
	at = clock_mono_us();
	kill(first, SIGKILL);
	await_new_keeper(k, first);
	keeper_await_end(k, t.life);
	assert_true(dead_within(run, 0));
	assert_true(clock_mono_us() - at >= GRACE_US);
	expect_output(&t, "");
	expect_exited(&t);
	expect_eof(&t);
	trial_end(&t);
	t = trial_sh(k, "echo works");
	expect_output(&t, "works\n");
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
a_frozen_keeper_is_replaced_and_its_runs_are_ended(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, STUBBORN), late;
	pid_t first = keeper_pid(k), run;

	expect_started(&t);
	run = read_pid(t.out_fd);
	kill(first, SIGSTOP);
	late = trial_sh(k, "echo executed"); /* it lies in the socket of the frozen one */
	await_new_keeper(k, first);
	keeper_await_end(k, t.life);
	assert_true(dead_within(run, 0));
	expect_output(&t, "");
	expect_eof(&late);
	expect_output(&late, "");
	trial_end(&t);
	trial_end(&late);
	assert_false(readable_within(keeper_alive_fd(k), 0));
	keeper_stop(&k);
	expect_nothing_left();
}

/* The shim is killed by nobody but us: it hears neither of the stop nor of the keeper's death. */
static void
a_frozen_shim_under_a_dead_keeper_is_killed_with_its_run(void **state)
{
	for (int frozen_keeper = 0; frozen_keeper <= 1; frozen_keeper++) {
		struct keeper *k = keeper_for_test();
		struct trial t = trial_sh(k, STUBBORN);
		pid_t first = keeper_pid(k), shim = parent_of(expect_started(&t)), run = read_pid(t.out_fd);

		kill(shim, SIGSTOP);
		stop_run(&t);
		kill(first, frozen_keeper ? SIGSTOP : SIGKILL);
		expect_eof(&t);
		keeper_await_end(k, t.life);
		assert_true(dead_within(run, 0));
		assert_true(dead_within(shim, 0));
		expect_output(&t, "");
		trial_end(&t);
		keeper_stop(&k);
		expect_nothing_left();
	}
}

/* The grace is longer than anybody waits. */
static void
a_process_in_a_hurry_leaves_nothing_of_a_lost_keeper(void **state)
{
	const struct keeper_setup setup = {.kill_grace_us = 100 * US_PER_S, .will_fd = -1};
	struct keeper *k = NULL;
	struct err err = {0};
	struct trial t;
	pid_t first, shim, run;

	assert_int_equal(keeper_start(&k, &setup, &err), RC_OK);
	keeper_lease(k, CLOCK_NEVER);
	first = keeper_pid(k);
	t = trial_sh(k, STUBBORN);
	shim = parent_of(expect_started(&t));
	run = read_pid(t.out_fd);
	kill(shim, SIGSTOP);
	kill(first, SIGKILL);
	await_new_keeper(k, first);
	assert_false(dead_within(run, 0));
	keeper_no_grace(k, clock_mono_us() + PATIENCE_S * US_PER_S);
	assert_true(dead_within(run, 0) && dead_within(shim, 0));
	keeper_no_grace(k, clock_mono_us() + PATIENCE_S * US_PER_S); /* nothing to wait for */
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
keepers_that_die_one_after_the_other_leave_nothing(void **state)
{
	struct keeper *k = keeper_for_test();

	for (int i = 0; i < 5; i++) {
		struct trial t = trial_sh(k, "(setsid sleep 100 &); echo $$; kill -STOP $PPID; sleep 100");
		pid_t dead = keeper_pid(k), run = read_pid(t.out_fd);

		kill(dead, SIGKILL);
		await_new_keeper(k, dead);
		keeper_await_end(k, t.life);
		assert_true(dead_within(run, 0));
		expect_output(&t, "");
		trial_end(&t);
	}
	keeper_stop(&k);
	expect_nothing_left();
}

/* keeper_stop promises that the shims are gone, also those that the keeper can
 * no longer wait for. */
static void
stopping_after_the_keepers_death_waits_for_the_runs(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, STUBBORN);
	pid_t pid;

	expect_started(&t);
	pid = read_pid(t.out_fd);
	kill(keeper_pid(k), SIGKILL);
	keeper_stop(&k);
	assert_true(dead_within(pid, 0));
	trial_end(&t);
	expect_nothing_left();
}

static void
death_of_the_shim_ends_its_run_before_the_worker_hears_of_it(void **state)
{
	struct keeper *k = keeper_for_test();

	for (int i = 0; i < 10; i++) {
		struct trial t =
		    trial_sh(k, "(setsid sh -c 'trap \"\" TERM; echo $$; sleep 100; :' &); sleep 100");
		pid_t shim = parent_of(expect_started(&t)), daemon = read_pid(t.out_fd);

		assert_int_equal(parent_of(shim), keeper_pid(k));
		kill(shim, SIGKILL);
		expect_gone(&t);
		assert_true(dead_within(daemon, 0));
		expect_output(&t, "");
		trial_end(&t);
	}
	keeper_stop(&k);
	expect_nothing_left();
}

static void
death_of_an_idle_shim_costs_no_run(void **state)
{
	struct keeper *k = keeper_for_test();
	struct keeper_msg m;
	struct trial t;

	for (int i = 0; i < 50; i++) {
		pid_t shim = idle_shim(k);

		kill(shim, SIGKILL);
		if (i % 2 == 0)
			expect_dead(shim); /* else the request may be lost with it */
		t = trial_sh(k, "echo works");
		if (i % 2 == 0)
			expect_output(&t, "works\n");
		do
			m = next_message(&t);
		while (m.event == KEEPER_STARTED);
		assert_int_not_equal(m.event, 0); /* its end is told in any case */
		trial_end(&t);
	}
	keeper_stop(&k);
	expect_nothing_left();
}

static void
an_idle_shim_ends_with_its_keeper(void **state)
{
	struct keeper *k = keeper_for_test();
	pid_t shim = idle_shim(k), first = keeper_pid(k);

	kill(first, SIGKILL);
	expect_dead(shim);
	await_new_keeper(k, first);
	assert_int_not_equal(idle_shim(k), shim);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
a_frozen_idle_shim_holds_up_nobody(void **state)
{
	struct keeper *k = keeper_for_test();
	pid_t shim = idle_shim(k);
	int64_t at = clock_mono_us();

	kill(shim, SIGSTOP);
	keeper_stop(&k);
	assert_true(clock_mono_us() - at < US_PER_S);
	assert_true(dead_within(shim, 0));
	expect_nothing_left();
}

/* It had nothing to end when the lease was over. */
static void
a_shim_that_was_idle_without_a_lease_is_not_overdue(void **state)
{
	struct keeper *k = keeper_for_test();
	pid_t shim = idle_shim(k);
	struct trial t;

	keeper_lease(k, 0);
	assert_false(dead_within(shim, 700 * US_PER_MS)); /* the keeper looks twice a second */
	keeper_lease(k, CLOCK_NEVER);
	t = trial_sh(k, "sleep 2; echo end");
	assert_int_equal(parent_of(expect_started(&t)), shim);
	expect_output(&t, "end\n");
	assert_int_equal(expect_exited(&t).why, KEEPER_BY_ITSELF);
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

/* A stop reaches the keeper too; the worker has not given up. */
static void
a_frozen_shim_does_not_stop_the_stop(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, STUBBORN);
	pid_t shim = parent_of(expect_started(&t)), run = read_pid(t.out_fd);

	kill(shim, SIGSTOP);
	stop_run(&t);
	expect_gone(&t);
	assert_true(dead_within(run, 0));
	expect_output(&t, "");
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

/* As a machine that was frozen until the grace was over too: when it thaws, nothing of it is left. */
static void
a_run_that_thaws_long_after_its_lease_has_no_grace_left(void **state)
{
	const struct keeper_setup setup = {.kill_grace_us = 2 * US_PER_S, .will_fd = -1};
	struct keeper *k = NULL;
	struct err err = {0};
	struct trial t;
	pid_t shim, run;
	int64_t at;

	assert_int_equal(keeper_start(&k, &setup, &err), RC_OK);
	keeper_lease(k, CLOCK_NEVER);
	t = trial_sh(k, STUBBORN);
	shim = parent_of(expect_started(&t));
	run = read_pid(t.out_fd);
	kill(shim, SIGSTOP);
	kill(keeper_pid(k), SIGSTOP);
	keeper_lease(k, clock_boot_us() + 50 * US_PER_MS);
	assert_false(dead_within(run, 2100 * US_PER_MS));
	at = clock_mono_us();
	kill(keeper_pid(k), SIGCONT);
	kill(shim, SIGCONT);
	expect_dead(run);
	assert_true(clock_mono_us() - at < 1500 * US_PER_MS);
	trial_end(&t);
	keeper_stop(&k);
	expect_nothing_left();
}

static void
a_frozen_shim_is_killed_with_its_run(void **state)
{
	struct keeper *k = keeper_for_test();
	struct trial t = trial_sh(k, STUBBORN), other = trial_sh(k, "echo $$; sleep 100");
	pid_t shim = parent_of(expect_started(&t)), pid = read_pid(t.out_fd);

	expect_started(&other);
	read_pid(other.out_fd);
	kill(shim, SIGSTOP);
	close(t.run_fd);
	expect_dead(pid);
	expect_output(&t, "");
	close(t.out_fd);
	assert_false(readable_within(other.run_fd, 0)); /* the other run is left alone */
	trial_end(&other);
	keeper_stop(&k);
	expect_nothing_left();
}

/* The run's group when it is in one of ours; whether that can be is the machine's.  False: it cannot. */
static bool
group_of(pid_t pid, char *out, size_t size)
{
	char path[64], line[300];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	f = fopen(path, "re");
	while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		found = strncmp(line, "0::", 3) == 0 && strstr(line, "/pgrab.") != NULL;
		snprintf(out, size, "%s", line);
	}
	if (f != NULL)
		fclose(f);
	return found;
}

static void
control_groups_hold_what_is_in_them_and_go_with_it(void **state)
{
	const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .cgroups = true, .will_fd = -1};
	struct keeper *k = NULL;
	struct err err = {0};
	char first[300], second[300];
	struct trial t, other;
	pid_t run, shim, old;

	assert_int_equal(keeper_start(&k, &setup, &err), RC_OK);
	keeper_lease(k, CLOCK_NEVER);
	t = trial_sh(k, STUBBORN);
	shim = parent_of(expect_started(&t));
	run = read_pid(t.out_fd);
	if (!group_of(run, first, sizeof first)) {
		trial_end(&t);
		keeper_stop(&k);
		skip();
	}
	other = trial_sh(k, STUBBORN);
	expect_started(&other);
	assert_true(group_of(read_pid(other.out_fd), second, sizeof second));
	assert_string_not_equal(first, second);
	kill(shim, SIGKILL); /* the keeper knows the group */
	expect_gone(&t);
	expect_output(&t, "");
	assert_true(dead_within(run, 0));
	trial_end(&t);
	old = keeper_pid(k);
	kill(old, SIGKILL); /* the next keeper removes the group */
	await_new_keeper(k, old);
	keeper_await_end(k, other.life);
	trial_end(&other);
	keeper_stop(&k);
	expect_nothing_left();
}

/* A node of its own in a process: starts a keeper and a stubborn run, says so,
 * and waits for what we do. */
static pid_t
fake_node(int *out_fd, pid_t *run_pid, int64_t lease_us)
{
	int pair[2];
	pid_t node;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	node = fork();
	if (node == 0) {
		struct keeper *k = keeper_for_test();
		const char *const argv[] = {"/bin/sh", "-c", STUBBORN, NULL};
		struct keeper_spec spec = {
		    .argv = argv, .env = plain_env, .stdin_fd = -1, .output_fd = pair[1]};
		struct keeper_run started;
		struct err err = {0};

		keeper_lease(k, clock_boot_us() + lease_us);
		if (keeper_spawn(k, &spec, &started, &err) != RC_OK)
			_exit(1);
		close(pair[1]);
		for (;;)
			pause();
	}
	close(pair[1]);
	*out_fd = pair[0];
	*run_pid = read_pid(pair[0]);
	return node;
}

static void
expect_end_of(int out_fd, pid_t run_pid)
{
	struct buf b = {0};

	expect_dead(run_pid);
	read_until(out_fd, &b, NULL); /* the daemon has it too */
	assert_int_equal(b.len, 0);
	buf_fini(&b);
	close(out_fd);
}

static void
a_frozen_node_loses_its_runs_with_its_lease(void **state)
{
	int64_t at = clock_boot_us();
	int out, status;
	pid_t run, node = fake_node(&out, &run, 800 * US_PER_MS);

	kill(node, SIGSTOP);
	assert_int_equal(waitpid(node, &status, WUNTRACED), node);
	assert_true(WIFSTOPPED(status));
	expect_end_of(out, run);
	assert_true(clock_boot_us() - at >= 800 * US_PER_MS + GRACE_US);
	assert_true(clock_boot_us() - at < 800 * US_PER_MS + GRACE_US + 2 * US_PER_S);
	assert_int_equal(waitpid(node, NULL, WNOHANG), 0); /* the node is still there, frozen */
	kill(node, SIGKILL);
	expect_nothing_left();
}

static void
death_of_the_node_ends_everything(void **state)
{
	int out;
	pid_t run, node = fake_node(&out, &run, 3600 * US_PER_S);
	int64_t at = clock_mono_us();

	kill(node, SIGKILL);
	expect_end_of(out, run);
	expect_nothing_left();
	assert_true(clock_mono_us() - at < GRACE_US + 3 * US_PER_S);
}

static void
death_of_node_and_keeper_together_ends_everything(void **state)
{
	int out;
	pid_t run, node = fake_node(&out, &run, 3600 * US_PER_S), its_keeper = parent_of(parent_of(run));

	assert_int_equal(parent_of(its_keeper), node);
	kill(its_keeper, SIGKILL);
	kill(node, SIGKILL);
	expect_end_of(out, run);
	expect_nothing_left();
}

/* The run's output ends with the last of its processes. */
static void
expect_no_more_hops(struct trial *t)
{
	if (!readable_within(t->out_fd, 0))
		fail_msg("it is said to be gone, and hops on");
	trial_end(t);
}

/* The keeper has no shim to ask then. */
static void
a_run_that_hops_is_gone_when_the_keeper_says_so(void **state)
{
	struct keeper *k = keeper_for_test();

	for (int i = 0; i < 10; i++) {
		struct trial t = start_hop(k);
		pid_t shim = parent_of(expect_started(&t));

		assert_true(shim > 1);
		kill(shim, SIGKILL);
		expect_gone(&t);
		expect_no_more_hops(&t);
	}
	keeper_stop(&k);
	expect_nothing_left();
}

/* Nor has the node a keeper to ask then. */
static void
a_run_that_hops_is_gone_when_its_keeper_is_buried(void **state)
{
	struct keeper *k = keeper_for_test();

	for (int i = 0; i < 10; i++) {
		pid_t old = keeper_pid(k);
		struct trial t = start_hop(k);
		pid_t shim = parent_of(expect_started(&t));

		assert_true(shim > 1);
		kill(old, SIGKILL);
		kill(shim, SIGKILL);
		keeper_await_end(k, t.life);
		expect_no_more_hops(&t);
		await_new_keeper(k, old);
	}
	keeper_stop(&k);
	expect_nothing_left();
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lease_that_passes_ends_the_run),
	    cmocka_unit_test(lease_that_is_renewed_lets_the_run_go_on),
	    cmocka_unit_test(lease_that_is_taken_back_ends_the_run),
	    cmocka_unit_test(nothing_is_executed_without_a_lease),
	    cmocka_unit_test(nothing_is_executed_for_a_worker_that_has_gone),
	    cmocka_unit_test(a_frozen_keeper_blocks_nobody),
	    cmocka_unit_test(signals_to_the_group_do_not_end_the_keeper),
	    cmocka_unit_test(stopping_the_keeper_ends_every_run_in_time),
	    cmocka_unit_test(death_of_the_keeper_ends_its_runs_and_a_new_one_takes_over),
	    cmocka_unit_test(a_frozen_keeper_is_replaced_and_its_runs_are_ended),
	    cmocka_unit_test(a_frozen_shim_under_a_dead_keeper_is_killed_with_its_run),
	    cmocka_unit_test(a_process_in_a_hurry_leaves_nothing_of_a_lost_keeper),
	    cmocka_unit_test(keepers_that_die_one_after_the_other_leave_nothing),
	    cmocka_unit_test(stopping_after_the_keepers_death_waits_for_the_runs),
	    cmocka_unit_test(death_of_the_shim_ends_its_run_before_the_worker_hears_of_it),
	    cmocka_unit_test(death_of_an_idle_shim_costs_no_run),
	    cmocka_unit_test(an_idle_shim_ends_with_its_keeper),
	    cmocka_unit_test(a_frozen_idle_shim_holds_up_nobody),
	    cmocka_unit_test(a_shim_that_was_idle_without_a_lease_is_not_overdue),
	    cmocka_unit_test(a_frozen_shim_is_killed_with_its_run),
	    cmocka_unit_test(a_frozen_shim_does_not_stop_the_stop),
	    cmocka_unit_test(a_run_that_thaws_long_after_its_lease_has_no_grace_left),
	    cmocka_unit_test(a_frozen_node_loses_its_runs_with_its_lease),
	    cmocka_unit_test(control_groups_hold_what_is_in_them_and_go_with_it),
	    cmocka_unit_test(a_run_that_hops_is_gone_when_the_keeper_says_so),
	    cmocka_unit_test(a_run_that_hops_is_gone_when_its_keeper_is_buried),
	    cmocka_unit_test(death_of_the_node_ends_everything),
	    cmocka_unit_test(death_of_node_and_keeper_together_ends_everything),
	};

	if (argc > 1 && strcmp(argv[1], KEEPER_ARGV1) == 0)
		return keeper_main(argc, argv);
	if (argc > 1 && strcmp(argv[1], HOP_ARGV1) == 0)
		return hop();
	become_subreaper();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
