/* The finisher, by hand: every outcome is offered until it is taken, counts once, and stands in nobody's way.
 * */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "parts.h"
#include "random.h"

static struct parts p;

static void
begin(void)
{
	hand_start();
	fake_start(7);
	parts_make(&p);
	parts_register(&p, 11, 3600 * US_PER_S);
}

static size_t
in_hand(void)
{
	parts_boss(&p);
	return p.n.boss->n_in_hand;
}

/* n tasks at work, in the order of their ids. */
static void
put_to_work(int n)
{
	size_t before = p.n_at_work;

	for (int i = 0; i < n; i++)
		parts_claimed(&p, clock_mono_us(), false);
	p.n.boss->crew[0].slots += n;
	p.n.boss->crew[0].idle += n;
	parts_boss(&p);
	parts_starter(&p);
	parts_begin_work(&p);
	assert_int_equal(p.n_at_work, before + (size_t)n);
}

static void
end_all(enum outcome o)
{
	while (p.n_at_work > 0)
		parts_end_work(&p, 0, o);
}

/* Rounds as the finisher itself wants them. */
static void
let_it(int rounds)
{
	for (int i = 0; i < rounds; i++)
		(void)HAND_ROUND(clock_mono_us() + US_PER_S, finisher_round(p.finisher));
	hand.round = false;
}

static void
what_has_ended_is_written_at_once_and_leaves_the_node(void **unused)
{
	begin();
	put_to_work(20);
	end_all(OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	assert_int_equal(fake.calls[FAKE_FINISH], 1);
	assert_int_equal(fake_count(FAKE_GONE), 20);
	assert_int_equal(in_hand(), 0);
	assert_int_equal(atomic_load(&p.n.ended), 0);
	parts_end(&p);
}

static void
an_answer_that_was_lost_is_asked_about_and_counts_once(void **unused)
{
	for (enum fake_answer a = ANSWER_LOST_NOT_DONE; a <= ANSWER_LOST_DONE; a++) {
		begin();
		put_to_work(3);
		end_all(OUTCOME_SUCCEEDED);
		fake.next[FAKE_FINISH] = a;
		let_it(5);
		assert_int_equal(fake.calls[FAKE_FINISH], a == ANSWER_LOST_DONE ? 1 : 2);
		assert_true(fake.calls[FAKE_RECORDED] >= 1);
		assert_int_equal(fake.n_history, 3);
		assert_int_equal(in_hand(), 0);
		assert_int_equal(atomic_load(&p.n.count[COUNT_STALE]), 0);
		parts_end(&p);
	}
}

static void
what_somebody_else_has_by_now_is_stale_dropped_and_counted(void **unused)
{
	begin();
	put_to_work(2);
	fake_task(1)->version++;
	end_all(OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	assert_int_equal(atomic_load(&p.n.count[COUNT_STALE]), 1);
	assert_int_equal(fake.n_history, 1);
	assert_int_equal(in_hand(), 0);
	int64_t over[4];

	/* The database may show it as claimed still: no claim deletes what recovery finds it by. */
	assert_int_equal(holds_take_over(&p.n.holds, 11, false, over, 4), 1);
	assert_int_equal(holds_take_over(&p.n.holds, 11, true, over, 4), 1);
	parts_end(&p);
}

static void
what_was_not_executed_for_want_of_a_lease_is_not_written(void **unused)
{
	begin();
	put_to_work(1);
	p.at_work[0]->end.written = WRITTEN_NEVER;
	end_all(OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	assert_int_equal(fake.n_history, 0);
	assert_int_equal(fake_task(1)->status, FAKE_RUNNING);
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

static void
a_locked_row_waits_aside_and_is_offered_again_until_it_is_taken(void **unused)
{
	begin();
	put_to_work(10);
	fake_task(3)->locked = true;
	end_all(OUTCOME_SUCCEEDED);
	let_it(10);
	assert_int_equal(fake_count(FAKE_GONE), 9);
	assert_int_equal(in_hand(), 1);
	assert_int_equal(atomic_load(&p.n.boss->ends_locked), 1); /* and takes no room */
	put_to_work(2);
	end_all(OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	assert_int_equal(fake_count(FAKE_GONE), 11);
	fake_task(3)->locked = false;
	let_it(1);
	assert_int_equal(fake_count(FAKE_GONE), 12);
	assert_int_equal(fake.n_history, 12);
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

static void
one_bad_row_is_found_among_many_and_only_it_is_parked(void **unused)
{
	begin();
	put_to_work(40);
	fake_task(23)->poison = POISON_END;
	end_all(OUTCOME_SUCCEEDED);
	let_it(3);
	assert_int_equal(fake_count(FAKE_GONE), 39);
	assert_int_equal(fake_task(23)->status, FAKE_PARKED);
	assert_int_equal(in_hand(), 0);
	assert_true(health_may_claim(&p.n));
	parts_end(&p);
}

/* What the finisher has given away, round by round, and the time it takes. */
static void
let_aside(int rounds)
{
	for (int i = 0; i < rounds; i++) {
		(void)HAND_ROUND(clock_mono_us() + US_PER_S, finisher_round(finisher_aside(p.finisher)));
		hand.round = false;
	}
}

static void
one_row_that_gets_no_answer_keeps_no_other_waiting_and_gets_more_time(void **unused)
{
	begin();
	put_to_work(40);
	fake_task(23)->mute_us = 25 * US_PER_S;
	end_all(OUTCOME_SUCCEEDED);
	let_it(1);
	assert_int_equal(fake_count(FAKE_GONE), 0);
	put_to_work(5);
	end_all(OUTCOME_SUCCEEDED);
	let_it(1);
	assert_int_equal(fake_count(FAKE_GONE), 5); /* beside it */
	assert_true(health_may_claim(&p.n));
	assert_true(health_part_well(&p.n, HEALTH_FINISH));
	let_aside(30); /* halves; then 10 s, 20 s and 40 s */
	assert_int_equal(fake_count(FAKE_GONE), 45);
	assert_int_equal(fake.n_history, 45);
	assert_int_equal(in_hand(), 0);
	assert_int_equal(fake.calls[FAKE_PARK], 0);
	parts_end(&p);
}

static void
what_never_gets_an_answer_is_parked_at_last(void **unused)
{
	begin();
	put_to_work(3);
	fake_task(2)->mute_us = 3600 * US_PER_S;
	end_all(OUTCOME_SUCCEEDED);
	let_it(2);
	let_aside(20);
	assert_int_equal(fake_count(FAKE_GONE), 2);
	assert_int_equal(fake_task(2)->status, FAKE_PARKED);
	assert_int_equal(in_hand(), 0);
	assert_int_equal(atomic_load(&p.n.ended), 0);
	assert_true(health_part_well(&p.n, HEALTH_FINISH));
	parts_end(&p);
}

static void
silence_about_everything_is_the_servers_fault_and_parks_nothing(void **unused)
{
	begin();
	fake.mute = true;
	for (int i = 0; i < 4; i++) {
		put_to_work(2);
		end_all(OUTCOME_SUCCEEDED);
		let_it(3);
	}
	assert_false(health_may_claim(&p.n));
	assert_int_equal(fake.n_history, 0);
	fake.mute = false;
	let_it(5);
	let_aside(12);
	assert_int_equal(fake_count(FAKE_GONE), 8);
	assert_int_equal(fake_count(FAKE_PARKED), 0);
	assert_true(health_may_claim(&p.n));
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

static void
a_text_that_can_not_be_stored_costs_the_text_and_not_the_outcome(void **unused)
{
	begin();
	put_to_work(5);
	fake_task(2)->poison = POISON_TEXT;
	end_all(OUTCOME_SUCCEEDED);
	let_it(3);
	assert_int_equal(fake_count(FAKE_GONE), 5);
	for (size_t i = 0; i < fake.n_history; i++)
		assert_int_equal(fake.history[i].has_text, fake.history[i].id != 2);
	parts_end(&p);
}

static void
what_can_be_stored_in_no_way_is_given_up_alone_and_its_hold_stays(void **unused)
{
	begin();
	put_to_work(5);
	fake_task(2)->poison = POISON_ALL;
	end_all(OUTCOME_SUCCEEDED);
	let_it(3);
	assert_int_equal(fake_count(FAKE_GONE), 4);
	assert_int_equal(fake_task(2)->status, FAKE_RUNNING); /* recovery finds it */
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

static void
when_nothing_passes_it_is_not_the_rows_and_everything_is_kept(void **unused)
{
	begin();
	put_to_work(30);
	end_all(OUTCOME_SUCCEEDED);
	fake.refuse_ends = true;
	let_it(60);
	assert_int_equal(fake_count(FAKE_PARKED), 0);
	assert_int_equal(fake.n_history, 0);
	assert_int_equal(in_hand(), 30);
	assert_false(health_part_well(&p.n, HEALTH_FINISH));
	fake.refuse_ends = false;
	let_it(3);
	assert_int_equal(fake_count(FAKE_GONE), 30);
	assert_true(health_part_well(&p.n, HEALTH_FINISH));
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

static void
the_only_row_there_is_is_parked_when_it_was_refused_for_five_seconds_and_not_before(void **unused)
{
	begin();
	put_to_work(1);
	fake_task(1)->poison = POISON_END;
	end_all(OUTCOME_SUCCEEDED);
	int64_t since = clock_mono_us();

	parts_finisher(&p);
	while (fake_task(1)->status == FAKE_RUNNING && clock_mono_us() < since + 60 * US_PER_S)
		let_it(1);
	assert_int_equal(fake_task(1)->status, FAKE_PARKED);
	assert_in_range(clock_mono_us() - since, 5 * US_PER_S, 7 * US_PER_S);
	parts_end(&p);
}

static void
what_ended_before_a_fence_counts_under_its_old_fence(void **unused)
{
	begin();
	put_to_work(3);
	atomic_store(&p.n.incarnation, 12); /* a new life; the rows still stand under the old one */
	put_to_work(1);
	end_all(OUTCOME_SUCCEEDED);
	fake.down = true;
	let_it(5);
	assert_false(health_may_claim(&p.n));
	fake_task(2)->version++; /* one was recovered meanwhile */
	fake.down = false;
	let_it(3);
	assert_int_equal(fake.n_history, 3);
	for (size_t i = 0; i < fake.n_history; i++)
		assert_int_equal(fake.history[i].incarnation, fake.history[i].id <= 3 ? 11 : 12);
	assert_int_equal(atomic_load(&p.n.count[COUNT_STALE]), 1);
	assert_true(health_may_claim(&p.n));
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

/* Locks come and go, rows are bad, answers are lost: each outcome counts at most once, and each that is still
 * the node's counts. */
static void
in_random_histories_each_outcome_counts_once_and_none_is_left(void **unused)
{
	size_t written = 0;

	for (int h = 0; h < 2000; h++) {
		size_t bad = 0;

		begin();
		fake.random = random_below(1u << 30) + 1;
		put_to_work(12);
		fake.trouble = random_below(500);
		for (size_t i = 0; i < fake.n_tasks; i++) {
			struct fake_task *t = &fake.task[i];

			t->locked = random_below(6) == 0;
			if (random_below(12) == 0)
				t->poison = POISON_TEXT + (enum fake_poison)random_below(4);
			bad += t->poison > POISON_TEXT;
		}
		while (p.n_at_work > 0) {
			unsigned n = 1 + random_below((unsigned)p.n_at_work);

			for (unsigned i = 0; i < n; i++)
				parts_end_work(&p, random_below((unsigned)p.n_at_work),
				    random_below(4) == 0 ? OUTCOME_FAILED : OUTCOME_SUCCEEDED);
			let_it((int)random_below(4));
			fake.task[random_below((unsigned)fake.n_tasks)].locked = false;
		}
		fake.trouble = 0;
		for (size_t i = 0; i < fake.n_tasks; i++)
			fake.task[i].locked = false;
		let_it(30);
		put_to_work(1); /* that it passes is the proof that the others are to blame themselves */
		end_all(OUTCOME_SUCCEEDED);
		for (int i = 0; i < 200 && in_hand() > 0; i++)
			let_it(1);
		assert_int_equal(in_hand(), 0);
		assert_int_equal(atomic_load(&p.n.ended), 0);
		for (size_t i = 0; i < fake.n_tasks; i++) {
			const struct fake_task *t = &fake.task[i];

			assert_true(t->ends <= 1);
			assert_true(t->poison > POISON_TEXT || t->ends == 1);
			assert_true(t->status != FAKE_PARKED || t->poison > POISON_TEXT);
			written += t->ends;
		}
		assert_true(bad >= fake_count(FAKE_PARKED));
		parts_end(&p);
	}
	printf("# %zu outcomes\n", written);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_has_ended_is_written_at_once_and_leaves_the_node),
	    cmocka_unit_test(an_answer_that_was_lost_is_asked_about_and_counts_once),
	    cmocka_unit_test(what_somebody_else_has_by_now_is_stale_dropped_and_counted),
	    cmocka_unit_test(what_was_not_executed_for_want_of_a_lease_is_not_written),
	    cmocka_unit_test(a_locked_row_waits_aside_and_is_offered_again_until_it_is_taken),
	    cmocka_unit_test(one_bad_row_is_found_among_many_and_only_it_is_parked),
	    cmocka_unit_test(one_row_that_gets_no_answer_keeps_no_other_waiting_and_gets_more_time),
	    cmocka_unit_test(what_never_gets_an_answer_is_parked_at_last),
	    cmocka_unit_test(silence_about_everything_is_the_servers_fault_and_parks_nothing),
	    cmocka_unit_test(a_text_that_can_not_be_stored_costs_the_text_and_not_the_outcome),
	    cmocka_unit_test(what_can_be_stored_in_no_way_is_given_up_alone_and_its_hold_stays),
	    cmocka_unit_test(when_nothing_passes_it_is_not_the_rows_and_everything_is_kept),
	    cmocka_unit_test(
		the_only_row_there_is_is_parked_when_it_was_refused_for_five_seconds_and_not_before),
	    cmocka_unit_test(what_ended_before_a_fence_counts_under_its_old_fence),
	    cmocka_unit_test(in_random_histories_each_outcome_counts_once_and_none_is_left),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
