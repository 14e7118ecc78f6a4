/* Sifting: of the tasks of a silent statement those that are the reason are found, and no others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/log.h"
#include "node/doubts.h"

#define TASKS 300

/* A server that is silent when a statement has one of the bad in it, or about everything. */
struct server {
	bool bad[TASKS], answered[TASKS], all_silent;
	size_t pause;    /* silent about so many statements, whatever they are about */
	int64_t each_us; /* that it needs for a task */
	size_t statements, silences;
	int64_t longest_us;
};

static int64_t
id_of(void *ctx, size_t i)
{
	(void)ctx;
	return (int64_t)i + 1;
}

static enum sift
ask(void *ctx, size_t from, size_t n, int64_t within_us)
{
	struct server *s = ctx;
	bool silent = s->all_silent || s->statements < s->pause || (int64_t)n * s->each_us > within_us;

	s->statements++;
	s->longest_us = within_us > s->longest_us ? within_us : s->longest_us;
	for (size_t i = from; i < from + n; i++)
		silent = silent || s->bad[i];
	s->silences += silent;
	if (silent)
		return SIFT_SILENT;
	for (size_t i = from; i < from + n; i++)
		s->answered[i] = true;
	return SIFT_ANSWERED;
}

static void
those_that_are_silent_are_doubted_and_no_others(void **state)
{
	for (unsigned seed = 1; seed <= 300; seed++) {
		struct server s = {0};
		const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
		struct doubts ds = {0};
		struct sifter sifter = {.doubts = &ds};
		size_t n, bad;

		srand(seed);
		n = 2 + (size_t)rand() % (TASKS - 2);
		bad = 1 + (size_t)rand() % 2;
		doubts_init(&ds);
		for (size_t i = 0; i < bad; i++)
			s.bad[(size_t)rand() % n] = true;
		sift(&sifter, &what, n);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(s.answered[i], !s.bad[i]);
			assert_int_equal(doubts_has(&ds, id_of(&s, i)), s.bad[i]);
			assert_int_equal(doubts_wait(&ds, id_of(&s, i)), s.bad[i]);
		}
		assert_in_range(s.silences, 1, 1 + 4 * bad);
		doubts_fini(&ds);
	}
}

/* Inserted together, so that whole parts are full of them. */
static void
many_beside_each_other_are_found(void **state)
{
	struct server s = {0};
	const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
	struct doubts ds = {0};
	struct sifter sifter = {.doubts = &ds};

	doubts_init(&ds);
	for (size_t i = 100; i < 130; i++)
		s.bad[i] = true;
	sift(&sifter, &what, TASKS);
	for (size_t i = 0; i < TASKS; i++)
		assert_true(s.answered[i] != s.bad[i] && doubts_has(&ds, id_of(&s, i)) == s.bad[i]);
	assert_in_range(s.silences, 60, 80);
	doubts_fini(&ds);
}

static void
a_silent_server_makes_nobody_doubted_and_gets_more_time(void **state)
{
	struct server s = {.all_silent = true};
	const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
	struct doubts ds = {0};
	struct sifter sifter = {.doubts = &ds};
	int64_t before = 0;

	doubts_init(&ds);
	for (int i = 0; i < 3; i++) {
		s.longest_us = 0;
		sift(&sifter, &what, TASKS);
		assert_int_equal(ds.count, 0);
		assert_true(s.longest_us > before);
		before = s.longest_us;
	}
	assert_in_range(s.statements, 3, 3 * 5);
	s.all_silent = false;
	sift(&sifter, &what, TASKS);
	s.longest_us = 0;
	sift(&sifter, &what, TASKS);
	assert_true(s.longest_us < before);
	doubts_fini(&ds);
}

static void
a_pause_of_the_server_makes_nobody_doubted(void **state)
{
	for (size_t pause = 1; pause <= 9; pause++) {
		struct server s = {.pause = pause};
		const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
		struct doubts ds = {0};
		struct sifter sifter = {.doubts = &ds};

		doubts_init(&ds);
		sift(&sifter, &what, 7);
		assert_int_equal(ds.count, 0);
		doubts_fini(&ds);
	}
}

/* Each needs so long that all together are never done at first: the whole statement gets more time. */
static void
what_is_only_slow_is_taken_whole_in_the_end(void **state)
{
	struct server s = {.each_us = 2000000 / TASKS};
	const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
	struct doubts ds = {0};
	struct sifter sifter = {.doubts = &ds};

	doubts_init(&ds);
	for (int i = 0; i < 3; i++) {
		s.statements = 0;
		sift(&sifter, &what, TASKS);
		assert_int_equal(ds.count, 0);
	}
	assert_int_equal(s.statements, 1);
	doubts_fini(&ds);
}

static void
one_task_alone_is_doubted_the_second_time(void **state)
{
	struct server s = {.bad = {true}};
	const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
	struct doubts ds = {0};
	struct buf text = {0};
	struct sifter sifter = {.doubts = &ds};

	doubts_init(&ds);
	sift(&sifter, &what, 1);
	assert_int_equal(ds.count, 0);
	sift(&sifter, &what, 1);
	assert_true(doubts_has(&ds, 1) && doubts_wait(&ds, 1));
	assert_string_equal(doubts_print(&ds, &text), "{1}");
	doubts_drop(&ds, 1);
	assert_false(doubts_has(&ds, 1));
	assert_null(doubts_print(&ds, &text));
	buf_fini(&text);
	doubts_fini(&ds);
}

/* The longer it is doubted the longer it may take, up to a few seconds. */
static void
what_is_doubted_gets_more_time_each_time_and_no_more_are_kept_than_there_is_room_for(void **state)
{
	struct server s = {0};
	const struct sifted what = {.try = ask, .id = id_of, .ctx = &s};
	struct doubts ds = {0};
	struct sifter sifter = {.doubts = &ds};
	int64_t before = 0;

	doubts_init(&ds);
	memset(s.bad, true, sizeof s.bad);
	for (int i = 0; i < 4; i++) {
		s.longest_us = 0;
		sift_alone(&sifter, &what, 0);
		sift_alone(&sifter, &what, 0);
		assert_true(s.longest_us >= before && s.longest_us <= 4000000);
		before = s.longest_us;
	}
	for (size_t i = 0; i < TASKS; i++)
		sift_alone(&sifter, &what, i);
	assert_int_equal(ds.count, DOUBTS_MAX);
	assert_true(doubts_has(&ds, 1));
	for (size_t i = 0; i < TASKS; i++)
		doubts_drop(&ds, id_of(&s, i));
	assert_int_equal(ds.count, 0);
	doubts_fini(&ds);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(those_that_are_silent_are_doubted_and_no_others),
	    cmocka_unit_test(many_beside_each_other_are_found),
	    cmocka_unit_test(a_silent_server_makes_nobody_doubted_and_gets_more_time),
	    cmocka_unit_test(a_pause_of_the_server_makes_nobody_doubted),
	    cmocka_unit_test(what_is_only_slow_is_taken_whole_in_the_end),
	    cmocka_unit_test(one_task_alone_is_doubted_the_second_time),
	    cmocka_unit_test(
		what_is_doubted_gets_more_time_each_time_and_no_more_are_kept_than_there_is_room_for),
	};

	log_init(LOG_ERROR, LOG_TEXT, "test");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
