/* Recover, by hand: whose tasks are put back, by whom, and when. */
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
begin(bool first)
{
	hand_start();
	fake_start(7);
	parts_make(&p);
	if (first)
		fake_node(PART_NAME);
	fake_node("other")->incarnation = 22;
	parts_register(&p, 11, 3600 * US_PER_S);
	hand.others = (void (*)(void *))parts_boss; /* it is asked what is in hand */
	hand.ctx = &p;
}

/* A round now; or the next one that it wants itself. */
static void
now(void)
{
	assert_true(HAND_ROUND(0, recover_round(p.n.recover)));
	hand.round = false;
}

static void
next(void)
{
	assert_true(HAND_ROUND(CLOCK_NEVER, recover_round(p.n.recover)));
	hand.round = false;
}

static struct fake_task *
held_by(int64_t incarnation, enum fake_status status)
{
	struct fake_task *t = fake_add(fake_now_us());

	t->status = status;
	t->version = 5;
	t->incarnation = incarnation;
	t->held_us = fake_now_us();
	return t;
}

static struct member
seen(const struct fake_node *n)
{
	return (struct member){.id = n->id,
	    .name = (char *)n->name,
	    .incarnation = n->incarnation,
	    .beat = n->beat,
	    .life = fake.life};
}

static void
what_a_silent_node_held_is_put_back_and_what_ran_is_recorded_as_lost(void **unused)
{
	begin(false);
	struct fake_task *claimed = held_by(22, FAKE_CLAIMED), *ran = held_by(22, FAKE_RUNNING),
			 *ours = held_by(11, FAKE_RUNNING);
	struct member m = seen(fake_node("other"));

	recover_dead(p.n.recover, &m);
	now();
	assert_false(fake_node("other")->up);
	assert_int_equal(claimed->status, FAKE_SCHEDULED);
	assert_int_equal(ran->status, FAKE_SCHEDULED);
	assert_int_equal(claimed->lost + ran->lost, 1);
	assert_int_equal(ours->status, FAKE_RUNNING);
	parts_end(&p);
}

static void
a_node_that_has_beaten_since_keeps_its_tasks(void **unused)
{
	begin(false);
	struct fake_task *t = held_by(22, FAKE_RUNNING);
	struct member m = seen(fake_node("other"));

	fake_node("other")->beat++;
	recover_dead(p.n.recover, &m);
	now();
	assert_true(fake_node("other")->up);
	assert_int_equal(t->status, FAKE_RUNNING);
	assert_int_equal(fake.calls[FAKE_RECOVER], 0);
	parts_end(&p);
}

static void
only_who_buries_a_node_puts_back_what_it_held(void **unused)
{
	begin(false);
	struct member m = seen(fake_node("other"));

	held_by(22, FAKE_RUNNING);
	fake_node("other")->up = false; /* another node was faster */
	fake_node("other")->beat++;
	recover_dead(p.n.recover, &m);
	now();
	assert_int_equal(fake.calls[FAKE_RECOVER], 0);
	parts_end(&p);
}

static void
go_on_for(int64_t us)
{
	int64_t until = clock_mono_us() + us;

	while (clock_mono_us() < until)
		next();
}

static void
orphans_are_looked_for_by_the_first_of_the_live_nodes(void **unused)
{
	begin(true);
	struct fake_task *t = held_by(33, FAKE_CLAIMED); /* of an incarnation that nobody has */

	go_on_for(30 * US_PER_S);
	assert_int_equal(t->status, FAKE_SCHEDULED);
	assert_in_range(fake.calls[FAKE_DUTIES], 5, 7); /* every six seconds */
	parts_end(&p);
}

static void
the_others_look_in_turn_a_minute_each_in_case_the_first_cannot(void **unused)
{
	begin(false);
	fake_node("third")->incarnation = 44;
	parts_register(&p, 11, 3600 * US_PER_S);
	go_on_for(180 * US_PER_S); /* a minute is also the first one's */
	fake.calls[FAKE_DUTIES] = 0;
	go_on_for(1800 * US_PER_S);
	assert_int_equal(fake.calls[FAKE_DUTIES], 10);

	struct fake_task *t = held_by(33, FAKE_CLAIMED);

	fake.no_upkeep = true;
	go_on_for(180 * US_PER_S);
	assert_int_equal(t->status, FAKE_SCHEDULED);
	assert_false(fake.no_upkeep);
	parts_end(&p);
}

static void
a_search_in_slices_goes_on_each_second_until_it_is_done(void **unused)
{
	begin(true);
	go_on_for(120 * US_PER_S); /* a quiet cluster: the duties are asked for once a minute */
	fake.slices = 30;
	go_on_for(100 * US_PER_S);
	assert_int_equal(fake.slices, 0);
	parts_end(&p);
}

/* The picture of the cluster, as the heartbeat would publish it now. */
static void
look_around(void)
{
	parts_register(&p, 11, 3600 * US_PER_S);
}

/* Nobody has anything in hand, comes or goes: then there is nothing that could have been left behind. */
static void
a_quiet_cluster_is_asked_once_a_minute_until_something_stirs(void **unused)
{
	begin(true);
	go_on_for(35 * US_PER_S);
	fake.calls[FAKE_DUTIES] = 0;
	go_on_for(600 * US_PER_S);
	assert_in_range(fake.calls[FAKE_DUTIES], 9, 11);

	struct fake_task *t = held_by(33, FAKE_CLAIMED); /* and here is something after all */

	go_on_for(61 * US_PER_S);
	assert_int_equal(t->status, FAKE_SCHEDULED);

	go_on_for(100 * US_PER_S);
	t = held_by(33, FAKE_CLAIMED);
	fake.next[FAKE_DUTIES] = ANSWER_AGAIN; /* what was not answered is asked again soon */
	go_on_for(68 * US_PER_S);
	assert_int_equal(t->status, FAKE_SCHEDULED);

	go_on_for(100 * US_PER_S);
	fake_node("new")->incarnation = 44;
	look_around();
	fake.calls[FAKE_DUTIES] = 0;
	go_on_for(25 * US_PER_S);
	assert_in_range(fake.calls[FAKE_DUTIES], 3, 5);

	go_on_for(100 * US_PER_S);
	fake_node("other")->in_hand = 1;
	look_around();
	fake.calls[FAKE_DUTIES] = 0;
	go_on_for(60 * US_PER_S);
	assert_in_range(fake.calls[FAKE_DUTIES], 9, 11);
	parts_end(&p);
}

/* A line moves with the clock: whoever knows of it asks every second, until it is gone. */
static void
who_has_put_a_task_in_line_asks_every_second_until_the_line_is_gone(void **unused)
{
	begin(false);
	go_on_for(10 * US_PER_S);
	assert_int_equal(fake.calls[FAKE_DUTIES], 0);
	fake.line = true;
	recover_line(p.n.recover);
	go_on_for(20 * US_PER_S);
	assert_in_range(fake.calls[FAKE_DUTIES], 19, 20);
	fake.next[FAKE_DUTIES] = ANSWER_AGAIN;
	go_on_for(5 * US_PER_S);
	assert_in_range(fake.calls[FAKE_DUTIES], 24, 25);
	fake.line = false;
	go_on_for(60 * US_PER_S);
	assert_in_range(fake.calls[FAKE_DUTIES], 25, 27); /* and in its turn */
	parts_end(&p);
}

static void
the_first_node_tells_people_when_it_is_rung_and_no_other_does(void **unused)
{
	begin(true);
	now(); /* the next round of duties is seconds away */
	fake.notices = 3;
	recover_notice(p.n.recover);
	now();
	assert_int_equal(fake.notices, 0);
	parts_end(&p);
	begin(false);
	fake.notices = 3;
	recover_notice(p.n.recover);
	now();
	assert_int_equal(fake.notices, 3);
	parts_end(&p);
}

static void
the_first_node_ends_waits_when_they_are_over_and_no_other_does(void **unused)
{
	begin(true);
	now();
	fake.waits = 3; /* begun since it asked, and rung for */
	recover_waits(p.n.recover);
	now();
	assert_int_equal(fake.waits, 0);
	fake.next_wait_us = 300 * US_PER_MS;
	recover_waits(p.n.recover);
	now();
	fake.waits = 1; /* the one that it has heard of */
	go_on_for(US_PER_S / 2);
	assert_int_equal(fake.waits, 0);
	parts_end(&p);
	begin(false);
	fake.waits = 1;
	recover_waits(p.n.recover);
	now();
	assert_int_equal(fake.waits, 1);
	parts_end(&p);
}

static void
what_has_claimed_nothing_has_leaked_nothing(void **unused)
{
	begin(false);
	go_on_for(300 * US_PER_S);
	assert_int_equal(fake.calls[FAKE_OWN], 2);
	for (int i = 0; i < 2; i++) { /* a claim, and its answer is lost: the row is too young at first */
		struct fake_task *leak = held_by(11, FAKE_CLAIMED);

		hold_unref(hold_open(&p.n.holds, 11));
		go_on_for(121 * US_PER_S);
		assert_int_equal(leak->status, FAKE_SCHEDULED);
	}
	go_on_for(300 * US_PER_S);
	fake.calls[FAKE_OWN] = 0;
	go_on_for(300 * US_PER_S);
	assert_int_equal(fake.calls[FAKE_OWN], 0);
	parts_end(&p);
}

static void
a_recovery_that_failed_is_made_up_for_at_once(void **unused)
{
	begin(true);
	struct fake_task *t = held_by(22, FAKE_RUNNING);
	struct member m = seen(fake_node("other"));

	now(); /* the next round of duties is seconds away */
	fake.next[FAKE_RECOVER] = ANSWER_AGAIN;
	recover_dead(p.n.recover, &m);
	now();
	assert_int_equal(t->status, FAKE_SCHEDULED);
	parts_end(&p);
}

/* A trigger that waits, say. */
static void
a_task_that_is_never_answered_keeps_no_other_from_being_put_back(void **unused)
{
	begin(true);
	struct fake_task *t[5];
	struct member m = seen(fake_node("other"));

	for (size_t i = 0; i < 5; i++)
		t[i] = held_by(22, FAKE_RUNNING);
	t[3]->mute_us = 3600 * US_PER_S;
	recover_dead(p.n.recover, &m);
	now();
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(t[i]->status, i == 3 ? FAKE_RUNNING : FAKE_SCHEDULED);
	t[3]->mute_us = 0;
	for (int i = 0; i < 20 && t[3]->status == FAKE_RUNNING; i++)
		next();
	assert_int_equal(t[3]->status, FAKE_SCHEDULED);
	parts_end(&p);
}

static void
an_old_incarnation_of_our_own_is_put_back_until_it_worked(void **unused)
{
	begin(false);
	struct fake_task *t = held_by(10, FAKE_CLAIMED);

	fake.next[FAKE_RECOVER] = ANSWER_AGAIN;
	recover_own_ended(p.n.recover, 10);
	now();
	assert_int_equal(t->status, FAKE_CLAIMED);
	next();
	assert_int_equal(t->status, FAKE_SCHEDULED);
	next();
	assert_int_equal(fake.calls[FAKE_RECOVER], 2);
	parts_end(&p);
}

/* What the database says is ours and is not in hand goes back, when no reply can be under way any more. */
static void
leaks_are_repaired_when_they_are_old_enough_and_only_they(void **unused)
{
	begin(false);
	struct fake_task *claimed = held_by(11, FAKE_CLAIMED), *ran = held_by(11, FAKE_RUNNING),
			 *locked = held_by(11, FAKE_CLAIMED), *in_hand, *young;
	int64_t since = clock_mono_us();

	locked->locked = true;
	in_hand = parts_claimed(&p, clock_mono_us() + 3600 * US_PER_S, false);
	parts_boss(&p);
	while (clock_mono_us() < since + 19 * US_PER_S)
		next();
	assert_int_equal(claimed->status, FAKE_CLAIMED);
	young = held_by(11, FAKE_CLAIMED);
	while (clock_mono_us() < since + 31 * US_PER_S)
		next();
	assert_int_equal(claimed->status, FAKE_SCHEDULED);
	assert_int_equal(ran->lost, 1);
	assert_int_equal(in_hand->status, FAKE_CLAIMED);
	assert_int_equal(locked->status, FAKE_CLAIMED);
	locked->locked = false;
	while (clock_mono_us() < since + 46 * US_PER_S)
		next();
	assert_int_equal(locked->status, FAKE_SCHEDULED);
	assert_int_equal(young->status, FAKE_SCHEDULED);
	assert_int_equal(in_hand->status, FAKE_CLAIMED);
	parts_end(&p);
}

static void
a_leak_stays_while_a_loader_asks_what_its_claim_has_taken(void **unused)
{
	begin(false);
	struct fake_task *claimed = held_by(11, FAKE_CLAIMED);
	int64_t since = clock_mono_us();

	parts_claimed(&p, clock_mono_us() + 3600 * US_PER_S, false);
	parts_boss(&p);
	p.n.unsure = 1;
	while (clock_mono_us() < since + 60 * US_PER_S)
		next();
	assert_int_equal(claimed->status, FAKE_CLAIMED);
	p.n.unsure = 0;
	while (clock_mono_us() < since + 90 * US_PER_S)
		next();
	assert_int_equal(claimed->status, FAKE_SCHEDULED);
	parts_end(&p);
}

static void
a_leak_that_is_never_answered_keeps_no_other_from_going_back(void **unused)
{
	begin(false);
	struct fake_task *hangs = held_by(11, FAKE_RUNNING), *ran = held_by(11, FAKE_RUNNING);
	int64_t since = clock_mono_us();

	hangs->mute_us = 3600 * US_PER_S;
	while (clock_mono_us() < since + 100 * US_PER_S)
		next();
	assert_int_equal(ran->lost, 1);
	assert_int_equal(hangs->lost, 0);
	hangs->mute_us = 0;
	while (clock_mono_us() < since + 300 * US_PER_S)
		next();
	assert_int_equal(hangs->lost, 1);
	parts_end(&p);
}

static void
a_leak_that_the_server_does_not_take_back_is_tried_again_in_a_second(void **unused)
{
	begin(false);
	struct fake_task *claimed = held_by(11, FAKE_CLAIMED);
	int64_t since = clock_mono_us(), asked = 0;

	while (fake.calls[FAKE_RELEASE] == 0) {
		fake.next[FAKE_RELEASE] = ANSWER_AGAIN;
		next();
		asked = clock_mono_us();
	}
	assert_true(asked > since);
	assert_int_equal(claimed->status, FAKE_CLAIMED);
	while (clock_mono_us() < asked + 2 * US_PER_S)
		next();
	assert_int_equal(claimed->status, FAKE_SCHEDULED);
	parts_end(&p);
}

static void
a_node_without_a_lease_asks_nothing(void **unused)
{
	begin(true);
	now(); /* it is the first, and knows when the next wait is over */
	struct member m = seen(fake_node("other"));
	int64_t since = clock_mono_us();
	unsigned calls = 0, rounds = 0;

	held_by(22, FAKE_RUNNING);
	for (int c = 0; c < FAKE__COUNT; c++)
		fake.calls[c] = 0;
	lease_drop(&p.n.lease);
	recover_dead(p.n.recover, &m);
	while (clock_mono_us() < since + 60 * US_PER_S) {
		next();
		assert_true(++rounds <= 61);
	}
	for (int c = 0; c < FAKE__COUNT; c++)
		calls += fake.calls[c];
	assert_int_equal(calls, 0);
	assert_true(fake_node("other")->up);
	parts_end(&p);
}

/* Nodes are suspected, rightly or not, and answers are lost: nothing is taken from who is up. */
static void
in_random_histories_only_the_dead_lose_their_tasks(void **unused)
{
	size_t recovered = 0;

	for (int h = 0; h < 1000; h++) {
		begin(random_below(2));
		fake_node("third")->incarnation = 33;
		fake.random = random_below(1u << 30) + 1;
		fake.trouble = random_below(400);
		for (int i = 0; i < 20; i++)
			held_by(i % 2 == 0 ? 22 : 33, random_below(2) == 0 ? FAKE_CLAIMED : FAKE_RUNNING);
		for (int i = 0; i < 20; i++) {
			struct fake_node *n = fake_node(random_below(2) == 0 ? "other" : "third");
			struct member m = seen(n);

			if (random_below(3) == 0)
				recover_dead(p.n.recover, &m);
			if (random_below(3) == 0)
				n->beat++;
			next();
			for (size_t k = 0; k < fake.n_tasks; k++)
				assert_true(fake.task[k].incarnation != 0 ||
					    !fake_node(k % 2 == 0 ? "other" : "third")->up);
		}
		recovered += fake_count(FAKE_SCHEDULED);
		parts_end(&p);
	}
	assert_true(recovered > 1000);
}

/* A claim whose runs are over. */
static void
claim_that_is_over(void)
{
	hold_unref(hold_open(&p.n.holds, 11));
}

static void
what_no_claim_deletes_in_a_second_recover_does(void **unused)
{
	begin(false);
	for (int i = 0; i < 120; i++) { /* rows to delete in every second round, which no claim deletes */
		if (i % 2 == 0)
			claim_that_is_over();
		hand_turn(US_PER_S);
		now();
	}
	assert_in_range(fake.calls[FAKE_HOLD_DROP], 59, 60);
	parts_end(&p);
}

static void
while_a_node_claims_its_claims_delete_what_is_over_unless_it_is_doubted(void **unused)
{
	begin(false);
	for (int i = 0; i < 60; i++) {
		claim_that_is_over();
		hand_turn(US_PER_S);
		now();
	}
	assert_int_equal(fake.calls[FAKE_HOLD_DROP], 0);
	struct hold *h = hold_open(&p.n.holds, 11);

	hold_doubt(h);
	hold_unref(h);
	hand_turn(US_PER_S);
	now();
	assert_int_equal(fake.calls[FAKE_HOLD_DROP], 1);
	parts_end(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_a_silent_node_held_is_put_back_and_what_ran_is_recorded_as_lost),
	    cmocka_unit_test(a_node_that_has_beaten_since_keeps_its_tasks),
	    cmocka_unit_test(only_who_buries_a_node_puts_back_what_it_held),
	    cmocka_unit_test(orphans_are_looked_for_by_the_first_of_the_live_nodes),
	    cmocka_unit_test(the_others_look_in_turn_a_minute_each_in_case_the_first_cannot),
	    cmocka_unit_test(a_search_in_slices_goes_on_each_second_until_it_is_done),
	    cmocka_unit_test(a_quiet_cluster_is_asked_once_a_minute_until_something_stirs),
	    cmocka_unit_test(the_first_node_tells_people_when_it_is_rung_and_no_other_does),
	    cmocka_unit_test(the_first_node_ends_waits_when_they_are_over_and_no_other_does),
	    cmocka_unit_test(who_has_put_a_task_in_line_asks_every_second_until_the_line_is_gone),
	    cmocka_unit_test(what_has_claimed_nothing_has_leaked_nothing),
	    cmocka_unit_test(a_recovery_that_failed_is_made_up_for_at_once),
	    cmocka_unit_test(a_task_that_is_never_answered_keeps_no_other_from_being_put_back),
	    cmocka_unit_test(an_old_incarnation_of_our_own_is_put_back_until_it_worked),
	    cmocka_unit_test(leaks_are_repaired_when_they_are_old_enough_and_only_they),
	    cmocka_unit_test(a_leak_stays_while_a_loader_asks_what_its_claim_has_taken),
	    cmocka_unit_test(a_leak_that_is_never_answered_keeps_no_other_from_going_back),
	    cmocka_unit_test(a_leak_that_the_server_does_not_take_back_is_tried_again_in_a_second),
	    cmocka_unit_test(a_node_without_a_lease_asks_nothing),
	    cmocka_unit_test(in_random_histories_only_the_dead_lose_their_tasks),
	    cmocka_unit_test(what_no_claim_deletes_in_a_second_recover_does),
	    cmocka_unit_test(while_a_node_claims_its_claims_delete_what_is_over_unless_it_is_doubted),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
