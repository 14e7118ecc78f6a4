/* Holds: a row of pgrab.hold may go when the last run of its claim is over, and not before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/hold.h"
#include "core/run.h"

static void
a_hold_is_over_with_its_last_run(void **unused)
{
	struct holds hs;
	int64_t over[4];

	holds_init(&hs);
	struct hold *h = hold_open(&hs, 7);
	int64_t batch = hold_batch(h);
	struct run *a = run_create(1, 1, 7), *b = run_create(2, 1, 7);

	a->hold = hold_ref(h);
	b->hold = hold_ref(h);
	hold_unref(h);
	run_free(a);
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 0);
	run_free(b);
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 1);
	assert_int_equal(over[0], batch);
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 0);
	holds_fini(&hs);
}

static void
a_claim_that_won_nothing_is_over_at_once(void **unused)
{
	struct holds hs;
	int64_t over[4];

	holds_init(&hs);
	hold_unref(hold_open(&hs, 7));
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 1);
	holds_fini(&hs);
}

static void
numbers_never_repeat_and_others_incarnations_are_forgotten(void **unused)
{
	struct holds hs;
	int64_t over[200];

	holds_init(&hs);
	for (int i = 0; i < 150; i++)
		hold_unref(hold_open(&hs, i < 50 ? 1 : 2));
	assert_int_equal(holds_take_over(&hs, 2, true, over, 40), 40);
	assert_int_equal(over[0], 51);
	assert_int_equal(holds_take_over(&hs, 2, true, over + 40, 160), 60);
	for (int i = 0; i < 100; i++)
		assert_int_equal(over[i], 51 + i);
	assert_int_equal(holds_take_over(&hs, 1, true, over, 200), 0);
	holds_fini(&hs);
}

static void
what_could_not_be_deleted_is_offered_again(void **unused)
{
	struct holds hs;
	int64_t over[4];

	holds_init(&hs);
	hold_unref(hold_open(&hs, 7));
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 1);
	holds_give_back(&hs, 7, true, over, 1);
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 1);
	holds_fini(&hs);
}

static void
what_is_in_doubt_is_not_deleted_by_a_claim(void **unused)
{
	struct holds hs;
	int64_t over[4];

	holds_init(&hs);
	struct hold *h = hold_open(&hs, 7);

	hold_doubt(h);
	hold_unref(h);
	hold_unref(hold_open(&hs, 7));
	assert_int_equal(holds_take_over(&hs, 7, false, over, 4), 1);
	assert_int_equal(over[0], 2);
	assert_int_equal(holds_take_over(&hs, 7, false, over, 4), 0);
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 1);
	assert_int_equal(over[0], 1);
	hold_doubt(NULL);
	holds_fini(&hs);
}

static void
what_may_still_be_held_stays_written_down(void **unused)
{
	struct holds hs;
	int64_t over[4];

	holds_init(&hs);
	struct hold *h = hold_open(&hs, 7);

	hold_keep(h);
	hold_unref(h);
	assert_int_equal(holds_take_over(&hs, 7, true, over, 4), 0);
	hold_keep(NULL);
	holds_fini(&hs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_hold_is_over_with_its_last_run),
	    cmocka_unit_test(a_claim_that_won_nothing_is_over_at_once),
	    cmocka_unit_test(numbers_never_repeat_and_others_incarnations_are_forgotten),
	    cmocka_unit_test(what_could_not_be_deleted_is_offered_again),
	    cmocka_unit_test(what_is_in_doubt_is_not_deleted_by_a_claim),
	    cmocka_unit_test(what_may_still_be_held_stays_written_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
