/*
 * Calls with a deadline.
 */
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "db/deadline_call.h"

/* Static: an abandoned thread may still be in sem_post when its waiter has gone on. */
static sem_t go, dropped;
static int calls;

static void
call(void *arg)
{
	__atomic_fetch_add((int *)arg, 1, __ATOMIC_RELAXED);
}

static void
call_slowly(void *arg)
{
	sem_wait(&go);
	call(arg);
}

static void
drop(void *arg)
{
	sem_post(&dropped);
}

static bool
wait_for(sem_t *s)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	return sem_timedwait(s, &until) == 0;
}

static int
set_up(void **state)
{
	calls = 0;
	return sem_init(&go, 0, 0) != 0 || sem_init(&dropped, 0, 0) != 0;
}

static void
a_call_that_returns_in_time_belongs_to_the_caller(void **state)
{
	for (int i = 1; i <= 100; i++) {
		assert_true(deadline_call(call, drop, &calls, clock_mono_us() + 20 * US_PER_S));
		assert_int_equal(calls, i);
	}
	assert_int_not_equal(sem_trywait(&dropped), 0);
}

static void
a_call_that_hangs_is_left_at_the_deadline_and_dropped_when_it_returns(void **state)
{
	int64_t begun = clock_mono_us();

	assert_false(deadline_call(call_slowly, drop, &calls, begun + 50 * US_PER_MS));
	assert_in_range(clock_mono_us() - begun, 50 * US_PER_MS, 10 * US_PER_S);
	assert_int_not_equal(sem_trywait(&dropped), 0);
	sem_post(&go);
	assert_true(wait_for(&dropped));
	assert_int_equal(calls, 1);
}

static void
whoever_wins_at_the_deadline_there_is_one_owner(void **state)
{
	int left = 0;

	for (int i = 0; i < 300; i++)
		left += deadline_call(call, drop, &calls, clock_mono_us() + i % 100) ? 0 : 1;
	for (int i = 0; i < left; i++)
		assert_true(wait_for(&dropped));
	assert_int_not_equal(sem_trywait(&dropped), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(a_call_that_returns_in_time_belongs_to_the_caller, set_up),
	    cmocka_unit_test_setup(
		a_call_that_hangs_is_left_at_the_deadline_and_dropped_when_it_returns, set_up),
	    cmocka_unit_test_setup(whoever_wins_at_the_deadline_there_is_one_owner, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
