/*
 * Threads and the gate.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/thread.h"

static int64_t
soon(void)
{
	return clock_mono_us() + 20 * US_PER_S; /* a test that reaches it has failed */
}

struct seen {
	char name[16];
	sigset_t mask;
};

static void *
look_around(void *arg)
{
	struct seen *s = arg;

	pthread_getname_np(pthread_self(), s->name, sizeof s->name);
	pthread_sigmask(SIG_SETMASK, NULL, &s->mask);
	return NULL;
}

static void
thread_starts_with_its_name_and_all_signals_blocked(void **state)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD, SIGPIPE, SIGUSR1, SIGALRM};
	struct seen s = {.name = ""};
	sigset_t before, after;
	pthread_t t;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	thread_start(&t, "a_name", look_around, &s);
	thread_join(t);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_string_equal(s.name, "a_name");
	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		assert_int_equal(sigismember(&s.mask, signals[i]), 1);
		assert_int_equal(sigismember(&after, signals[i]), sigismember(&before, signals[i]));
	}
}

static void
gate_wait_ends_by_time(void **state)
{
	int64_t until = clock_mono_us() + 30 * US_PER_MS;
	struct gate g;

	gate_init(&g);
	assert_int_equal(gate_wait(&g, until), GATE_TIME);
	assert_true(clock_mono_us() >= until);
	assert_int_equal(gate_wait(&g, 0), GATE_TIME);
	gate_fini(&g);
}

static void
gate_ring_before_the_wait_is_remembered_once(void **state)
{
	struct gate g;

	gate_init(&g);
	gate_ring(&g);
	gate_ring(&g);
	assert_int_equal(gate_wait(&g, CLOCK_NEVER), GATE_RUNG);
	assert_int_equal(gate_wait(&g, clock_mono_us()), GATE_TIME);
	gate_ring(&g);
	assert_int_equal(gate_wait(&g, 0), GATE_RUNG); /* time that has passed hides no ring */
	gate_fini(&g);
}

static void
gate_pause_leaves_a_ring_and_ends_by_time_or_stop(void **state)
{
	int64_t until = clock_mono_us() + 30 * US_PER_MS;
	struct gate g;

	gate_init(&g);
	gate_ring(&g);
	assert_true(gate_pause(&g, until));
	assert_true(clock_mono_us() >= until);
	assert_int_equal(gate_wait(&g, CLOCK_NEVER), GATE_RUNG);
	gate_stop(&g);
	assert_false(gate_pause(&g, CLOCK_NEVER));
	gate_fini(&g);
}

static void
gate_stop_is_for_good_and_before_a_ring(void **state)
{
	struct gate g;

	gate_init(&g);
	assert_false(gate_stopped(&g));
	gate_ring(&g);
	gate_stop(&g);
	assert_true(gate_stopped(&g));
	for (int i = 0; i < 3; i++)
		assert_int_equal(gate_wait(&g, CLOCK_NEVER), GATE_STOPPED);
	gate_fini(&g);
}

struct pair {
	struct gate there, back;
	int rings;
};

static void *
answer(void *arg)
{
	struct pair *p = arg;

	while (gate_wait(&p->there, soon()) == GATE_RUNG) {
		p->rings++;
		gate_ring(&p->back);
	}
	return NULL;
}

static void
gate_wakes_a_sleeper_by_ring_and_by_stop(void **state)
{
	enum { ROUNDS = 2000 };
	struct pair p = {.rings = 0};
	pthread_t t;

	gate_init(&p.there);
	gate_init(&p.back);
	thread_start(&t, "answer", answer, &p);
	for (int i = 0; i < ROUNDS; i++) {
		gate_ring(&p.there);
		assert_int_equal(gate_wait(&p.back, soon()), GATE_RUNG);
	}
	gate_stop(&p.there);
	thread_join(t);
	assert_int_equal(p.rings, ROUNDS);
	gate_fini(&p.there);
	gate_fini(&p.back);
}

static void *
wait_for_stop(void *arg)
{
	enum gate_wake wake = gate_wait(arg, CLOCK_NEVER);

	return wake == GATE_STOPPED ? arg : NULL;
}

static void
gate_stop_wakes_all_sleepers(void **state)
{
	struct gate g;
	pthread_t t[4];
	void *answered;

	gate_init(&g);
	for (int i = 0; i < 4; i++)
		thread_start(&t[i], "sleeper", wait_for_stop, &g);
	gate_stop(&g);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(t[i], &answered), 0);
		assert_ptr_equal(answered, &g);
	}
	gate_fini(&g);
}

static void
clock_far_and_past_times_are_safe(void **state)
{
	struct timespec ts = clock_timespec(CLOCK_NEVER);

	assert_true(ts.tv_sec > 1000000000 && ts.tv_nsec >= 0 && ts.tv_nsec < 1000000000);
	ts = clock_timespec(-5);
	assert_true(ts.tv_sec == 0 && ts.tv_nsec == 0);
	ts = clock_timespec(1500000);
	assert_true(ts.tv_sec == 1 && ts.tv_nsec == 500000000);
	assert_int_equal(clock_poll_ms(1000, CLOCK_NEVER), -1);
	assert_int_equal(clock_poll_ms(1000, 1000), 0);
	assert_int_equal(clock_poll_ms(1000, 0), 0);
	assert_int_equal(clock_poll_ms(1000, 1001), 1);
	assert_int_equal(clock_poll_ms(1000, 2000), 1);
	assert_int_equal(clock_poll_ms(1000, 2001), 2);
	assert_int_equal(clock_poll_ms(0, CLOCK_NEVER - 1), INT32_MAX);
}

static void *
nothing(void *arg)
{
	return arg;
}

/* In a process of its own, which may have no more threads. */
static void
a_thread_that_cannot_be_made_is_an_outcome(void **state)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct rlimit none = {0, 0};
		struct err err = {0};
		pthread_t t;

		if (setrlimit(RLIMIT_NPROC, &none) != 0 || (getuid() == 0 && setuid(65534) != 0))
			_exit(77);
		_exit(
		    thread_try(&t, "refused", nothing, NULL, &err) == RC_AGAIN && strstr(err.text, "refused")
			? 0
			: 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_thread_that_cannot_be_made_is_an_outcome),
	    cmocka_unit_test(thread_starts_with_its_name_and_all_signals_blocked),
	    cmocka_unit_test(gate_wait_ends_by_time),
	    cmocka_unit_test(gate_ring_before_the_wait_is_remembered_once),
	    cmocka_unit_test(gate_pause_leaves_a_ring_and_ends_by_time_or_stop),
	    cmocka_unit_test(gate_stop_is_for_good_and_before_a_ring),
	    cmocka_unit_test(gate_wakes_a_sleeper_by_ring_and_by_stop),
	    cmocka_unit_test(gate_stop_wakes_all_sleepers),
	    cmocka_unit_test(clock_far_and_past_times_are_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
