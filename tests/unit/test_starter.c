/* The starter, by hand: what goes to the workers, what goes back, and what becomes of an answer that was
 * lost. */
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

static struct fake_task *
due(bool once)
{
	return parts_claimed(&p, clock_mono_us(), once);
}

/* From the boss through the starter, and what came back to the boss. */
static void
pass(void)
{
	parts_boss(&p);
	parts_starter(&p);
	parts_boss(&p);
}

static size_t
in_hand(void)
{
	return p.n.boss->n_in_hand;
}

static void
finish_all(void)
{
	while (p.n_at_work > 0)
		parts_end_work(&p, 0, OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	parts_boss(&p);
}

static void
what_the_database_confirms_goes_to_the_workers(void **unused)
{
	begin();
	for (int i = 0; i < 3; i++)
		due(i == 1);
	pass();
	assert_int_equal(fake_count(FAKE_RUNNING), 3);
	assert_int_equal(parts_begin_work(&p), 3);
	finish_all();
	assert_int_equal(in_hand(), 0);
	assert_int_equal(fake_count(FAKE_GONE), 3);
	parts_end(&p);
}

static bool
is_woken(struct mailbox *m)
{
	int64_t now = clock_mono_us();
	struct mail *none;

	return mailbox_pop_until(m, now + US_PER_S, &none) == RC_AGAIN && clock_mono_us() == now;
}

static void
for_what_is_planned_there_are_connections_ahead_of_its_time(void **unused)
{
	begin();
	pass();
	parts_finisher(&p);
	assert_int_equal(fake.calls[FAKE_CONNECT], 0);
	assert_false(is_woken(p.n.start_queue));
	parts_claimed(&p, clock_mono_us() + 5 * US_PER_S, false);
	parts_boss(&p);
	assert_true(is_woken(p.n.start_queue));
	assert_true(is_woken(p.n.finish_queue));
	parts_starter(&p);
	parts_finisher(&p);
	assert_int_equal(fake.calls[FAKE_CONNECT], 2);
	assert_int_equal(fake.calls[FAKE_START], 2); /* of nothing: for its plan */
	assert_int_equal(fake_count(FAKE_RUNNING), 0);
	parts_end(&p);
}

static void
what_was_edited_since_its_claim_is_not_started_and_leaves_the_node(void **unused)
{
	begin();
	struct fake_task *edited = due(false), *plain = due(false);

	edited->version++;
	edited->status = FAKE_SCHEDULED;
	edited->incarnation = 0;
	pass();
	assert_int_equal(parts_begin_work(&p), 1);
	assert_int_equal(p.at_work[0]->id, plain->id);
	assert_int_equal(in_hand(), 1);
	assert_int_equal(edited->status, FAKE_SCHEDULED);
	assert_int_equal(p.n.boss->crew[0].idle, 3);
	parts_end(&p);
}

static void
what_gets_no_place_under_a_limit_makes_recover_ask_for_the_line(void **unused)
{
	for (int limited = 0; limited < 2; limited++) {
		hand_start();
		fake_start(7);
		parts_make(&p);
		fake_node("other")->incarnation = 22; /* the first node */
		parts_register(&p, 11, 3600 * US_PER_S);

		struct fake_task *t = due(false);

		parts_boss(&p);
		TAILQ_FIRST(&p.n.boss->in_hand)->limited = limited;
		t->version++; /* it went back, into the line */
		t->status = FAKE_SCHEDULED;
		t->incarnation = 0;
		parts_starter(&p);
		parts_boss(&p);
		assert_int_equal(in_hand(), 0);
		parts_recover(&p);
		assert_int_equal(fake.calls[FAKE_DUTIES], limited);
		parts_end(&p);
	}
}

static void
what_is_not_due_by_the_databases_clock_goes_back(void **unused)
{
	begin();
	struct fake_task *t = due(false);

	t->due_us += 10 * US_PER_S; /* its clock was set back since */
	pass();
	assert_int_equal(parts_begin_work(&p), 0);
	assert_int_equal(t->status, FAKE_SCHEDULED);
	assert_int_equal(in_hand(), 0);
	parts_end(&p);
}

static void
without_a_lease_nothing_is_asked_and_nothing_is_begun(void **unused)
{
	begin();
	due(false);
	due(true);
	lease_renew(&p.n.lease, clock_boot_us(), 0);
	pass();
	assert_int_equal(fake.calls[FAKE_START] + fake.calls[FAKE_RELEASE], 0);
	assert_int_equal(parts_begin_work(&p), 0);
	assert_int_equal(in_hand(), 0);
	assert_int_equal(fake_count(FAKE_CLAIMED), 2); /* others find them */
	parts_end(&p);
}

static void
the_lease_ends(enum fake_call what)
{
	if (what == FAKE_START)
		hand_turn(10 * US_PER_S);
}

static void
a_start_during_which_the_lease_ended_is_not_executed(void **unused)
{
	begin();
	lease_renew(&p.n.lease, clock_boot_us(), 5 * US_PER_S);
	due(false);
	fake.after = the_lease_ends;
	pass();
	assert_int_equal(fake_count(FAKE_RUNNING), 1);
	assert_int_equal(parts_begin_work(&p), 0);
	parts_end(&p);
}

static void
a_lost_answer_is_asked_about_and_the_start_is_not_repeated(void **unused)
{
	begin();
	struct fake_task *t = due(false);

	fake.next[FAKE_START] = ANSWER_LOST_DONE;
	pass();
	assert_int_equal(fake.calls[FAKE_START], 1);
	assert_int_equal(fake.calls[FAKE_STARTED], 1);
	assert_int_equal(t->starts, 1);
	assert_int_equal(parts_begin_work(&p), 1);
	finish_all();
	assert_false(holds_doubted(&p.n.holds));

	t = due(false);
	fake.next[FAKE_START] = ANSWER_LOST_NOT_DONE;
	pass();
	assert_int_equal(fake.calls[FAKE_START], 2);
	assert_int_equal(t->starts, 0);
	assert_int_equal(parts_begin_work(&p), 0);
	assert_int_equal(t->status, FAKE_SCHEDULED); /* handed back: it had not been started */
	assert_int_equal(in_hand(), 0);
	assert_true(holds_doubted(&p.n.holds)); /* or the commit was still under way */
	parts_end(&p);
}

static void
go_down_after_a_start(enum fake_call what)
{
	fake.down = fake.down || what == FAKE_START;
}

static void
what_may_have_been_started_and_can_not_be_asked_about_is_lost(void **unused)
{
	begin();
	struct fake_task *t = due(false);

	fake.next[FAKE_START] = ANSWER_LOST_DONE;
	fake.after = go_down_after_a_start;
	pass();
	assert_int_equal(parts_begin_work(&p), 0);
	assert_int_equal(in_hand(), 0);
	fake.down = false;
	fake.after = NULL;
	hand_turn(2 * US_PER_S);
	parts_finisher(&p);
	assert_int_equal(t->lost, 1);
	assert_int_equal(t->status, FAKE_SCHEDULED);
	parts_end(&p);
}

static void
an_at_most_once_task_whose_start_is_not_acknowledged_is_never_executed(void **unused)
{
	for (enum fake_answer a = ANSWER_LOST_NOT_DONE; a <= ANSWER_LOST_DONE; a++) {
		begin();
		struct fake_task *t = due(true);

		fake.next[FAKE_START] = a;
		pass();
		assert_int_equal(fake.calls[FAKE_STARTED], 0);
		assert_int_equal(parts_begin_work(&p), 0);
		assert_int_equal(in_hand(), 0);
		parts_finisher(&p);
		assert_int_equal(t->lost, a == ANSWER_LOST_DONE);
		assert_int_equal(t->status, a == ANSWER_LOST_DONE ? FAKE_PARKED : FAKE_SCHEDULED);
		parts_end(&p);
	}
}

static void
an_at_most_once_task_is_not_started_where_it_might_be_forgotten(void **unused)
{
	begin();
	struct fake_task *once = due(true), *plain = due(false);

	fake.not_durable = true;
	pass();
	assert_int_equal(parts_begin_work(&p), 1);
	assert_int_equal(p.at_work[0]->id, plain->id);
	assert_int_equal(once->starts, 0);
	assert_int_equal(once->status, FAKE_SCHEDULED);
	assert_false(atomic_load(&p.n.durable));
	parts_end(&p);
}

static void
a_locked_row_holds_up_neither_the_others_nor_a_worker_and_goes_back_when_it_is_free(void **unused)
{
	begin();
	struct fake_task *locked = due(false), *plain = due(false);

	locked->locked = true;
	pass();
	assert_int_equal(parts_begin_work(&p), 1);
	assert_int_equal(p.at_work[0]->id, plain->id);
	assert_int_equal(in_hand(), 1);
	assert_int_equal(p.n.boss->crew[0].idle, 3);
	for (int i = 0; i < 20; i++) {
		(void)HAND_ROUND(CLOCK_NEVER, starter_round(p.starter));
		assert_int_equal(locked->status, FAKE_CLAIMED);
	}
	locked->locked = false;
	(void)HAND_ROUND(CLOCK_NEVER, starter_round(p.starter));
	assert_int_equal(locked->status, FAKE_SCHEDULED);
	assert_int_equal(locked->starts, 0);
	parts_end(&p);
}

static void
one_row_that_is_refused_harms_no_other(void **unused)
{
	begin();
	for (int i = 0; i < 4; i++)
		due(false);
	memcpy(fake.sqlstate, "22P02", 6);
	fake.next[FAKE_START] = ANSWER_REFUSED;
	pass();
	assert_int_equal(fake.calls[FAKE_START], 5); /* all together, then each for itself */
	assert_int_equal(parts_begin_work(&p), 4);
	parts_end(&p);
}

static void
without_a_connection_the_node_says_so_once_claims_nothing_and_hands_over_what_it_has(void **unused)
{
	begin();
	struct fake_task *t = due(false);
	int64_t since = clock_mono_us();

	fake.down = true;
	pass();
	assert_in_range(clock_mono_us() - since, US_PER_S, 10 * US_PER_S);
	assert_false(health_may_claim(&p.n));
	assert_int_equal(mailbox_count(p.n.back_queue), 1); /* for the heartbeat, which has a connection */
	parts_boss(&p);
	assert_int_equal(in_hand(), 0);
	assert_true(p.n.boss->draining);

	fake.down = false;
	for (int i = 0; i < 3 && !health_may_claim(&p.n); i++)
		(void)HAND_ROUND(CLOCK_NEVER, starter_round(p.starter));
	assert_true(health_may_claim(&p.n));
	parts_boss(&p);
	assert_false(p.n.boss->draining);
	assert_int_equal(t->status, FAKE_CLAIMED);
	parts_end(&p);
}

/* Edits, locks, lost answers, in any order: what is begun is on record as started, once, and everything
 * leaves the node. */
static void
in_random_histories_what_is_begun_is_on_record_and_was_started_once(void **unused)
{
	size_t begun = 0;

	for (int h = 0; h < 3000; h++) {
		begin();
		fake.random = random_below(1u << 30) + 1;
		fake.trouble = random_below(400);
		for (int i = 0; i < 12; i++) {
			struct fake_task *t = due(random_below(3) == 0);

			t->locked = random_below(8) == 0;
			if (random_below(8) == 0) { /* a person edits it */
				t->status = FAKE_SCHEDULED;
				t->incarnation = 0;
				t->version++;
			}
			if (random_below(3) > 0)
				continue;
			pass();
			begun += parts_begin_work(&p);
			for (size_t k = 0; k < p.n_at_work; k++) {
				const struct fake_task *w = fake_task(p.at_work[k]->id);

				assert_int_equal(w->status, FAKE_RUNNING);
				assert_int_equal(w->version, p.at_work[k]->version);
				assert_int_equal(w->starts, 1);
			}
			finish_all();
		}
		fake.trouble = 0;
		for (size_t i = 0; i < fake.n_tasks; i++)
			fake.task[i].locked = false;
		for (int i = 0; i < 50 && (in_hand() > 0 || p.n_at_work > 0); i++) {
			hand_turn(US_PER_S);
			pass();
			parts_begin_work(&p);
			finish_all();
		}
		assert_int_equal(in_hand(), 0);
		for (size_t i = 0; i < fake.n_tasks; i++)
			assert_true(fake.task[i].ends <= fake.task[i].starts);
		parts_end(&p);
	}
	printf("# %zu begun\n", begun);
	assert_true(begun > 3000);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_the_database_confirms_goes_to_the_workers),
	    cmocka_unit_test(what_was_edited_since_its_claim_is_not_started_and_leaves_the_node),
	    cmocka_unit_test(what_gets_no_place_under_a_limit_makes_recover_ask_for_the_line),
	    cmocka_unit_test(for_what_is_planned_there_are_connections_ahead_of_its_time),
	    cmocka_unit_test(what_is_not_due_by_the_databases_clock_goes_back),
	    cmocka_unit_test(without_a_lease_nothing_is_asked_and_nothing_is_begun),
	    cmocka_unit_test(a_start_during_which_the_lease_ended_is_not_executed),
	    cmocka_unit_test(a_lost_answer_is_asked_about_and_the_start_is_not_repeated),
	    cmocka_unit_test(what_may_have_been_started_and_can_not_be_asked_about_is_lost),
	    cmocka_unit_test(an_at_most_once_task_whose_start_is_not_acknowledged_is_never_executed),
	    cmocka_unit_test(an_at_most_once_task_is_not_started_where_it_might_be_forgotten),
	    cmocka_unit_test(
		a_locked_row_holds_up_neither_the_others_nor_a_worker_and_goes_back_when_it_is_free),
	    cmocka_unit_test(one_row_that_is_refused_harms_no_other),
	    cmocka_unit_test(
		without_a_connection_the_node_says_so_once_claims_nothing_and_hands_over_what_it_has),
	    cmocka_unit_test(in_random_histories_what_is_begun_is_on_record_and_was_started_once),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
