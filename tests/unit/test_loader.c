/* The loader, by hand: what it claims, within what room, and what it leaves alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "node/loader/private.h"
#include "node/starter/private.h"
#include "parts.h"
#include "random.h"

static struct parts p;

static void
begin(void)
{
	hand_start();
	fake_start(random_below(1u << 30) + 1);
	parts_make(&p);
	parts_register(&p, 11, 3600 * US_PER_S);
	parts_loaders(&p);
	parts_boss(&p);
}

static struct fake_task *
add(int64_t in_us)
{
	return fake_add(fake_now_us() + in_us);
}

static void
rounds(int n)
{
	for (int i = 0; i < n; i++) {
		parts_loader(&p);
		parts_boss(&p);
	}
}

static size_t
in_hand(void)
{
	return p.n.boss->n_in_hand;
}

/* Starter, workers and finisher do their work, and nothing goes wrong there. */
static void
work_off(void)
{
	unsigned trouble = fake.trouble;

	fake.trouble = 0;
	parts_boss(&p);
	parts_starter(&p);
	parts_begin_work(&p);
	while (p.n_at_work > 0)
		parts_end_work(&p, 0, OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	parts_boss(&p);
	fake.trouble = trouble;
}

static void
what_is_due_is_claimed_within_the_room_and_no_more(void **unused)
{
	begin();
	for (int i = 0; i < 10; i++)
		add(-1 - i);
	rounds(3);
	assert_int_equal(fake_count(FAKE_CLAIMED), 4);
	for (int i = 0; i < 4; i++) /* those that have waited longest */
		assert_int_equal(fake_task(10 - i)->status, FAKE_CLAIMED);
	assert_int_equal(in_hand(), 4);
	for (int i = 0; i < 3; i++) {
		work_off();
		rounds(1);
	}
	assert_int_equal(fake_count(FAKE_SCHEDULED), 0);
	parts_end(&p);
}

static void
what_is_due_within_lookahead_is_claimed_ahead_and_what_is_later_is_not(void **unused)
{
	begin();
	struct fake_task *soon = add(p.set.lookahead_us - US_PER_MS),
			 *later = add(p.set.lookahead_us + US_PER_MS);

	rounds(3);
	assert_int_equal(soon->status, FAKE_CLAIMED);
	assert_int_equal(later->status, FAKE_SCHEDULED);
	assert_int_equal(in_hand(), 1);
	parts_end(&p);
}

static void
take_time(enum fake_call what)
{
	if (what == FAKE_LOOK || what == FAKE_CLOCK)
		hand_turn(what == FAKE_LOOK ? 5 * US_PER_MS : 1 * US_PER_MS);
}

static void
what_is_planned_is_late_by_the_answer_about_the_clock_and_not_by_the_look(void **unused)
{
	begin();
	add(-1);
	rounds(1);
	work_off();
	struct fake_task *t = add(2 * US_PER_S);

	fake.before = fake.after = take_time;
	rounds(1);
	assert_int_equal(in_hand(), 1);
	assert_int_equal(
	    TAILQ_FIRST(&p.n.boss->in_hand)->due_mono_us, t->due_us - fake.db_ahead_us + US_PER_MS);
	parts_end(&p);
}

static void
look_of_10_ms(enum fake_call what)
{
	if (what == FAKE_LOOK)
		hand_turn(10 * US_PER_MS);
}

/* All shards of a lane are probed, also for nothing: not in each of many looks that follow each other.  But
 * what comes there is found soon. */
static void
beside_a_backlog_an_empty_lane_is_read_now_and_then(void **unused)
{
	struct fake_task *t = NULL;
	unsigned looks, both = 0;
	int64_t added_us = 0, latest_us = 0;

	begin();
	fake.large = (struct need){.slots = 1};
	for (int i = 0; i < 400; i++)
		add(-1);
	fake.before = look_of_10_ms;
	while (fake_count(FAKE_SCHEDULED) > 0) {
		looks = fake.calls[FAKE_LOOK];
		hand_turn(15 * US_PER_MS);
		rounds(1);
		both += fake.calls[FAKE_LOOK] > looks && loaders_at(p.loaders, 0)->query.n_lanes == 2;
		if (t != NULL && t->status == FAKE_SCHEDULED)
			latest_us = fake_now_us() - added_us;
		if (t == NULL && fake_count(FAKE_SCHEDULED) < 370) {
			t = add(-US_PER_S); /* before all others */
			t->lane = FAKE_LARGE;
			added_us = fake_now_us();
		}
		work_off();
	}
	assert_true(fake.calls[FAKE_LOOK] > 10);
	assert_in_range(both, 2, fake.calls[FAKE_LOOK] / 2);
	assert_in_range(latest_us, 1, 150 * US_PER_MS);
	parts_end(&p);
}

static void
slow_look(enum fake_call what)
{
	if (what == FAKE_LOOK)
		hand_turn(50 * US_PER_MS);
}

/* They are equally old, so whoever is claimed first comes first. */
static void
what_a_slow_look_has_found_is_not_behind_what_the_next_ones_find(void **unused)
{
	const struct run *r;
	int64_t first_us;

	begin();
	for (int i = 0; i < 12; i++)
		add(-US_PER_S);
	rounds(1);
	assert_int_equal(in_hand(), 4);
	first_us = TAILQ_FIRST(&p.n.boss->in_hand)->due_mono_us;
	fake.after = slow_look;
	work_off();
	rounds(1);
	assert_true(in_hand() > 0);
	TAILQ_FOREACH (r, &p.n.boss->in_hand, place.in_hand)
		assert_int_equal(r->due_mono_us, first_us);
	parts_end(&p);
}

/* What has just become due starts at once, however little was known of the clock at first. */
static void
what_is_due_does_not_wait_for_a_clock_that_was_asked_slowly(void **unused)
{
	begin();
	add(-US_PER_S);
	fake.after = take_time;
	rounds(1);
	work_off();
	add(-1);
	fake.after = NULL;
	rounds(1);
	assert_int_equal(in_hand(), 1);
	assert_true(TAILQ_FIRST(&p.n.boss->in_hand)->due_mono_us <= clock_mono_us());
	parts_end(&p);
}

static void
when_a_clock_is_set_the_order_follows(void **unused)
{
	begin();
	for (int i = 0; i < 3; i++) {
		struct fake_task *t = add(-US_PER_S);

		rounds(1);
		assert_int_equal(in_hand(), 1);
		assert_int_equal(TAILQ_FIRST(&p.n.boss->in_hand)->due_mono_us, t->due_us - fake.db_ahead_us);
		work_off();
		fake.db_ahead_us += (i == 0 ? -3600 : 7200) * US_PER_S;
	}
	parts_end(&p);
}

static size_t given_before;

static void
count_given(enum fake_call what)
{
	if (what == FAKE_CLOCK)
		given_before = mailbox_count(p.n.boss->inbox);
}

static void
what_is_due_does_not_wait_until_the_clock_has_been_asked(void **unused)
{
	begin();
	add(2 * US_PER_S);
	add(-1);
	fake.before = count_given;
	parts_loader(&p);
	assert_int_equal(given_before, 2); /* the run and its room */
	parts_boss(&p);
	assert_int_equal(in_hand(), 2);
	parts_end(&p);
}

static void
an_answer_that_was_lost_is_asked_about_and_nothing_is_forgotten(void **unused)
{
	for (enum fake_answer a = ANSWER_LOST_NOT_DONE; a <= ANSWER_LOST_DONE; a++) {
		begin();
		add(-1);
		add(-1);
		fake.next[FAKE_CLAIM] = a;
		rounds(1);
		assert_int_equal(fake.calls[FAKE_CLAIM], 1);
		assert_int_equal(fake.calls[FAKE_HELD], 1);
		assert_int_equal(in_hand(), a == ANSWER_LOST_DONE ? 2 : 0);
		hand_turn(US_PER_S);
		rounds(1);
		assert_int_equal(in_hand(), 2);
		assert_int_equal(fake_count(FAKE_CLAIMED), 2);
		parts_end(&p);
	}
}

static void
without_a_lease_or_while_it_drains_or_is_ill_nothing_is_looked_at(void **unused)
{
	struct err why = {0};

	begin();
	add(-1);
	lease_renew(&p.n.lease, clock_boot_us(), 0);
	rounds(2);
	lease_renew(&p.n.lease, clock_boot_us(), 3600 * US_PER_S);
	atomic_store(&p.n.drained, true);
	rounds(2);
	atomic_store(&p.n.drained, false);
	health_ill(&p.n, HEALTH_FINISH, true, &why);
	rounds(2);
	assert_int_equal(fake.calls[FAKE_LOOK] + fake.calls[FAKE_CLAIM], 0);
	health_well(&p.n, HEALTH_FINISH);
	parts_boss(&p);
	rounds(2);
	assert_int_equal(in_hand(), 1);
	parts_end(&p);
}

static void
the_lease_ends(enum fake_call what)
{
	if (what == FAKE_LOOK)
		hand_turn(10 * US_PER_S);
}

static void
the_node_stops(enum fake_call what)
{
	if (what == FAKE_LOOK)
		atomic_store(&p.n.leaving, true);
}

static void
nothing_is_claimed_when(void (*happens)(enum fake_call what))
{
	begin();
	lease_renew(&p.n.lease, clock_boot_us(), 5 * US_PER_S);
	add(-1);
	fake.after = happens;
	rounds(1);
	assert_int_equal(fake.calls[FAKE_LOOK], 1);
	assert_int_equal(fake.calls[FAKE_CLAIM], 0);
	parts_end(&p);
}

/* Others may take it by then: the lease is over, or they have been told. */
static void
a_look_during_which_the_lease_ended_or_the_node_began_to_stop_is_not_followed_by_a_claim(void **unused)
{
	nothing_is_claimed_when(the_lease_ends);
	nothing_is_claimed_when(the_node_stops);
}

static void
what_misfired_is_settled_before_it_is_claimed(void **unused)
{
	begin();
	struct fake_task *t = add(-3600 * US_PER_S);
	int64_t version = t->version;

	t->misfired = true;
	fake.next[FAKE_MISFIRE] = ANSWER_AGAIN;
	rounds(1);
	assert_int_equal(t->version, version); /* neither settled nor claimed */
	hand_turn(US_PER_S);
	rounds(1);
	assert_false(t->misfired);
	assert_int_equal(t->status, FAKE_SCHEDULED);
	rounds(1);
	assert_int_equal(t->status, FAKE_CLAIMED);
	parts_end(&p);
}

static void
what_cannot_be_settled_keeps_nothing_else_waiting(void **unused)
{
	begin();
	struct fake_task *late[20], *bad;

	for (int i = 0; i < 20; i++) {
		late[i] = add(-3600 * US_PER_S);
		late[i]->misfired = true;
	}
	bad = late[7];
	bad->poison = POISON_ALL;
	for (int i = 0; i < 4; i++)
		add(-1);
	rounds(1);
	assert_int_equal(fake_count(FAKE_CLAIMED), 4);
	for (int i = 0; i < 20; i++)
		assert_int_equal(late[i]->misfired, late[i] == bad);
	assert_true(doubts_wait(&p.n.doubts, bad->id));
	unsigned tries = fake.calls[FAKE_MISFIRE];

	for (int i = 0; i < 3; i++)
		rounds(1);
	assert_int_equal(fake.calls[FAKE_MISFIRE], tries);
	parts_end(&p);
}

static void
a_locked_row_keeps_no_other_waiting_and_is_claimed_when_it_is_free(void **unused)
{
	begin();
	struct fake_task *locked = add(-10);

	locked->locked = true;
	for (int i = 0; i < 8; i++)
		add(-1);
	for (int i = 0; i < 5; i++) {
		rounds(1);
		work_off();
	}
	assert_int_equal(fake_count(FAKE_GONE), 8);
	/* While it is known to be locked, looks pass it by: the claims are few. */
	unsigned claims = fake.calls[FAKE_CLAIM];

	for (int i = 0; i < 60; i++) {
		hand_turn(US_PER_S);
		rounds(1);
	}
	assert_true(fake.calls[FAKE_CLAIM] - claims <= 6);
	locked->locked = false;
	for (int i = 0; i < 61 && locked->status == FAKE_SCHEDULED; i++) {
		hand_turn(US_PER_S);
		rounds(1);
	}
	assert_int_equal(locked->status, FAKE_CLAIMED);
	parts_end(&p);
}

static void
at_most_once_tasks_are_left_to_others_where_they_might_be_forgotten(void **unused)
{
	begin();
	struct fake_task *once = add(-10), *plain = add(-1);

	once->once = true;
	fake.not_durable = true;
	rounds(3);
	assert_int_equal(once->status, FAKE_SCHEDULED);
	assert_int_equal(plain->status, FAKE_CLAIMED);
	fake.not_durable = false;
	hand_turn(2 * US_PER_S);
	rounds(3);
	assert_int_equal(once->status, FAKE_CLAIMED);
	parts_end(&p);
}

static void
seconds(int n)
{
	for (int i = 0; i < n; i++) {
		hand_turn(US_PER_S);
		rounds(1);
	}
}

static char id_hash[] = "id_hash", default_strategy[] = "default";

static void
begin_beside_another(void)
{
	hand_start();
	fake_start(random_below(1u << 30) + 1);
	parts_make(&p);
	p.set.strategy = id_hash;
	fake_node("other")->incarnation = 22;
	parts_register(&p, 11, 3600 * US_PER_S);
	parts_loaders(&p);
	parts_boss(&p);
	atomic_store(&p.n.bell_written, true);
	rounds(1);
}

static void
a_node_that_finds_nothing_asks_once_for_its_own_shards_and_those_of_others(void **unused)
{
	begin_beside_another();
	seconds(5);
	fake.calls[FAKE_LOOK] = 0;
	seconds(20);
	assert_in_range(fake.calls[FAKE_LOOK], 19, 20);
	for (int i = 0; i < 4; i++) /* two of them are the other's, who does not take them */
		add(-1);
	seconds(1);
	assert_int_equal(fake_count(FAKE_CLAIMED), 2);
	seconds(3);
	assert_int_equal(fake_count(FAKE_CLAIMED), 4);
	parts_end(&p);
}

#define MANY 40

static void
begin_beside_many(char *strategy)
{
	char name[16];

	hand_start();
	fake_start(random_below(1u << 30) + 1);
	parts_make(&p);
	p.set.strategy = strategy;
	for (int i = 1; i < MANY; i++) {
		snprintf(name, sizeof name, "other %d", i);
		fake_node(name)->incarnation = 100 + i;
	}
	parts_register(&p, 11, 24 * 3600 * US_PER_S);
	parts_loaders(&p);
	parts_boss(&p);
	atomic_store(&p.n.bell_heard, true);
	atomic_store(&p.n.bell_written, true);
	seconds(5);
	fake.calls[FAKE_LOOK] = 0;
}

/* A round when it wants one, or when it rings; then the clock may jump.  Otherwise a millisecond passes. */
static void
go_on(void)
{
	struct loader *l = loaders_at(p.loaders, 0);

	if (l->gate.rung || clock_mono_us() >= l->next_us)
		(void)HAND_ROUND(CLOCK_NEVER, loader_round(l));
	else
		hand_turn(US_PER_MS);
	hand.round = false;
	parts_boss(&p);
}

/* A task for each 40 ms that have passed is inserted; that rings as long as somebody wants it to.  Returns
 * how late the latest of them is claimed. */
static int64_t
insert_for(int64_t us)
{
	int64_t latest_us = 0, at_us = clock_mono_us(), until_us = at_us + us;

	while (clock_mono_us() < until_us) {
		for (; at_us <= clock_mono_us(); at_us += 40 * US_PER_MS) {
			struct fake_task *t = add(0);

			if (atomic_load(&p.n.hungry) == 0)
				loaders_ring(p.loaders, (uint16_t[]){(uint16_t)t->id}, 1);
		}
		go_on();
		for (size_t i = 0; i < fake.n_tasks; i++) {
			int64_t late_us = fake_now_us() - fake.task[i].due_us;

			if (fake.task[i].status == FAKE_CLAIMED && late_us > latest_us)
				latest_us = late_us;
		}
		work_off();
	}
	return latest_us;
}

#define GAP_US ((2 + 3 * (MANY - 1)) * US_PER_MS)

static void
go_on_for(int64_t us)
{
	for (int64_t until_us = clock_mono_us() + us; clock_mono_us() < until_us; work_off())
		go_on();
}

static void
among_many_nodes_rings_are_gathered_and_a_node_that_always_finds_something_wants_none(void **unused)
{
	begin_beside_many(default_strategy);
	assert_true(insert_for(2 * US_PER_S) <= GAP_US + 2 * US_PER_MS);
	assert_in_range(fake.calls[FAKE_LOOK], 10, 2 * US_PER_S / GAP_US + 4); /* 2: once a poll at others' */
	assert_int_equal(atomic_load(&p.n.hungry), 1);
	fake.calls[FAKE_LOOK] = 0;
	go_on_for(14 * GAP_US);
	assert_int_equal(atomic_load(&p.n.hungry), 0); /* nothing comes any more: now it wants to be told */
	assert_true(insert_for(2 * US_PER_S) <= GAP_US + 2 * US_PER_MS);
	parts_end(&p);
}

static void
among_many_nodes_one_that_finds_something_two_times_of_three_wants_no_bell(void **unused)
{
	begin_beside_many(default_strategy);
	insert_for(2 * US_PER_S);
	for (int i = 0; i < 60; i++) {
		if (i % 3 != 0)
			add(0);
		go_on_for(GAP_US);
		assert_int_equal(atomic_load(&p.n.hungry), 1);
	}
	parts_end(&p);
}

/* It finds something each time that it rings; but looking in each gap instead would find nothing mostly. */
static void
among_many_nodes_one_that_is_seldom_rung_wants_the_bell(void **unused)
{
	begin_beside_many(default_strategy);
	for (int i = 0; i < 20; i++) {
		struct fake_task *t = add(0);

		loaders_ring(p.loaders, (uint16_t[]){(uint16_t)t->id}, 1);
		go_on_for(7 * GAP_US);
		assert_int_equal(t->status, FAKE_GONE);
		assert_int_equal(atomic_load(&p.n.hungry), 0);
	}
	parts_end(&p);
}

static void
among_many_nodes_a_ring_after_a_while_is_answered_at_once(void **unused)
{
	begin_beside_many(default_strategy);
	for (int i = 0; i < 20; i++) {
		hand_turn(130 * US_PER_MS);
		rounds(1);
		struct fake_task *t = add(0);

		loaders_ring(p.loaders, (uint16_t[]){(uint16_t)t->id}, 1);
		hand_turn(130 * US_PER_MS);
		rounds(1);
		assert_int_equal(t->status, FAKE_CLAIMED);
		work_off();
	}
	parts_end(&p);
}

/* The other one holds its shards and never looks. */
static void
what_others_have_planned_is_taken_steal_after_its_time_however_quiet_it_was(void **unused)
{
	begin_beside_another();
	atomic_store(&p.n.bell_heard, true);
	for (int i = 0; i < 100; i++) {
		struct fake_task *t;
		int64_t latest_us;

		seconds(20);
		t = add((int64_t)(1 + random_below(40 * 1000)) * US_PER_MS);
		if (t->due_us < fake_now_us() + 20 * US_PER_S) /* as an INSERT does */
			loaders_ring(p.loaders, (uint16_t[]){(uint16_t)t->id}, 1);
		if (pgrab_shard_has(&loaders_at(p.loaders, 0)->own, (unsigned)t->id % PGRAB_SHARDS)) {
			t->status = FAKE_GONE;
			continue;
		}
		/* A node that has heard something a moment ago looks at the others' once a poll. */
		latest_us = t->due_us + p.set.steal_after_us + 10 * US_PER_MS;
		if (t->due_us < fake_now_us() + 2 * p.set.steal_after_us + 5 * p.set.poll_us)
			latest_us += p.set.poll_us;
		while (t->status == FAKE_SCHEDULED) {
			hand_turn(10 * US_PER_MS);
			rounds(1);
			assert_true(fake_now_us() <= latest_us);
		}
		assert_true(fake_now_us() >= t->due_us + p.set.steal_after_us);
		work_off();
	}
	parts_end(&p);
}

/* A part of the others' shards is read in one look; in five looks all of them are.  What a look has seen
 * there is looked at again when it is for us. */
static void
among_many_what_one_has_left_is_found_within_some_looks_and_what_was_seen_at_its_time(void **unused)
{
	int noted_in_time = 0, found = 0;

	begin_beside_many(id_hash);
	for (int i = 0; i < 300; i++) {
		const struct loader *l = loaders_at(p.loaders, 0);
		bool noted = false;
		struct fake_task *t;
		int64_t taken_us;

		seconds(20);
		t = add((int64_t)(1 + random_below(40 * 1000)) * US_PER_MS);
		if (pgrab_shard_has(&l->own, (unsigned)t->id % PGRAB_SHARDS)) {
			t->status = FAKE_GONE;
			continue;
		}
		taken_us = t->due_us + p.set.steal_after_us;
		while (t->status == FAKE_SCHEDULED) {
			noted = noted || (fake_now_us() < taken_us && pgrab_shard_has(&l->lanes.again,
									  (unsigned)t->id % PGRAB_SHARDS));
			hand_turn(10 * US_PER_MS);
			rounds(1);
			assert_true(fake_now_us() <= taken_us + (noted ? 10 * US_PER_MS : 60 * US_PER_S));
		}
		assert_true(fake_now_us() >= taken_us);
		noted_in_time += noted;
		found += !noted;
		work_off();
	}
	seconds(25);
	for (unsigned i = 0; i < PGRAB_SHARD_SET_WORDS; i++)
		assert_true(loaders_at(p.loaders, 0)->lanes.again.word[i] == 0);
	assert_true(noted_in_time > 0 && found > 0);
	parts_end(&p);
}

static void
a_server_that_is_away_is_asked_less_and_less_often(void **unused)
{
	begin();
	add(-1);
	fake.down = true;
	for (int i = 0; i < 20000; i++) {
		hand_turn(US_PER_MS);
		loaders_wake(p.loaders); /* whoever rings */
		rounds(1);
	}
	assert_in_range(fake.calls[FAKE_OTHER], 8, 60); /* in 20 s */
	fake.down = false;
	hand_turn(2 * US_PER_S);
	rounds(1);
	assert_int_equal(in_hand(), 1);
	parts_end(&p);
}

static char test_kind[] = "{test}";

static void
what_is_due_is_started_by_its_claim_when_a_worker_is_free_for_each(void **unused)
{
	begin();
	p.n.kinds = test_kind;
	for (int i = 0; i < 10; i++)
		add(-1 - i);
	struct fake_task *soon = add(US_PER_S), *once = fake_task(10);

	once->once = true;
	rounds(1);
	assert_int_equal(fake_count(FAKE_RUNNING), 3); /* four workers */
	assert_int_equal(once->status, FAKE_CLAIMED);
	assert_int_equal(soon->status, FAKE_CLAIMED);
	assert_int_equal(mailbox_count(p.n.run_queue), 3);
	assert_int_equal(mailbox_count(p.n.start_queue), 1);
	rounds(2);
	assert_int_equal(fake.calls[FAKE_START], 0);
	parts_end(&p);
}

/* Room for more than begins: workers that have just ended many instant runs, say. */
static void
what_would_wait_for_a_worker_is_not_started_by_its_claim(void **unused)
{
	begin();
	p.n.kinds = test_kind;
	add(-1);
	p.n.boss->crew[0].burst = p.n.boss->crew[0].done_before = 10;
	p.n.boss->crew[0].done_now = 10;
	for (int i = 0; i < 10; i++)
		add(-1);
	parts_boss(&p);
	assert_true(p.n.boss->room.ready[0] > p.n.boss->room.begins);
	rounds(1);
	assert_int_equal(fake_count(FAKE_RUNNING), 0);
	assert_true(fake_count(FAKE_CLAIMED) > 4);
	parts_end(&p);
}

static void
what_its_claim_has_started_is_found_when_the_answer_was_lost(void **unused)
{
	begin();
	p.n.kinds = test_kind;
	add(-1);
	fake.next[FAKE_CLAIM] = ANSWER_LOST_DONE;
	rounds(1);
	assert_int_equal(fake_count(FAKE_RUNNING), 1);
	assert_int_equal(mailbox_count(p.n.run_queue), 1);
	parts_end(&p);
}

/* Every claim is within the room that the loader has just taken. */
static void
check_claim(enum fake_call what)
{
	if (what != FAKE_CLAIM)
		return;
	assert_true((int64_t)fake.claimed_due <= p.n.boss->taken.ready[0]);
	assert_true((int64_t)fake.claimed_timed <= p.n.boss->taken.timed);
}

/* What the database says is ours is in hand, and the other way around; no room is under way. */
static void
check(void)
{
	struct boss *b = p.n.boss;
	const struct run *r;
	size_t ours = 0;

	TAILQ_FOREACH (r, &b->in_hand, place.in_hand) {
		const struct fake_task *t = fake_task(r->id);

		assert_int_equal(t->version, r->version);
		assert_int_equal(t->incarnation, r->incarnation);
		assert_true(r->due_mono_us >= t->due_us - fake.db_ahead_us); /* never early */
	}
	for (size_t i = 0; i < fake.n_tasks; i++)
		ours += fake.task[i].incarnation == 11;
	for (struct run *copy = p.starter->locked; copy != NULL; copy = run_next(copy))
		ours--; /* it goes back as soon as its row is free */
	assert_int_equal(in_hand(), ours);
	for (size_t i = 0; i < CREWS_MAX; i++)
		assert_int_equal(b->taken.ready[i], 0);
	assert_int_equal(b->taken.timed, 0);
	assert_int_equal(b->taken.begins, 0);
}

static void
disturb(void)
{
	struct fake_task *t = &fake.task[random_below((unsigned)fake.n_tasks)];

	switch (random_below(6)) {
	case 0: t->locked = !t->locked; break;
	case 1: t->misfired = t->status == FAKE_SCHEDULED; break;
	case 2: /* another node has it now, or it was edited */
		if (t->status == FAKE_SCHEDULED) {
			t->version++;
			t->due_us += random_below(1000000);
		}
		break;
	case 3: fake.db_ahead_us += random_below(2000) - 1000; break; /* the server's clock is set */
	default: loaders_ring(p.loaders, (uint16_t[]){(uint16_t)t->id}, 1); break;
	}
}

static void
in_random_histories_claims_keep_within_the_room_and_nothing_is_forgotten(void **unused)
{
	size_t claimed = 0;

	for (int h = 0; h < 1000; h++) {
		begin();
		if (random_below(2) == 0)
			p.n.kinds = test_kind;
		fake.after = check_claim;
		fake.trouble = random_below(300);
		for (int i = 0; i < 40; i++)
			add((int64_t)random_below(8000000) - 2000000);
		for (int i = 0; i < 60; i++) {
			if (random_below(3) == 0)
				disturb();
			rounds(1);
			check();
			if (random_below(2) == 0)
				work_off();
			hand_turn(random_below(400000));
		}
		fake.trouble = 0;
		for (size_t i = 0; i < fake.n_tasks; i++)
			fake.task[i].locked = false;
		for (int i = 0; i < 400 && fake_count(FAKE_GONE) < fake.n_tasks; i++) {
			hand_turn(250 * US_PER_MS);
			rounds(1);
			work_off();
		}
		assert_int_equal(fake_count(FAKE_GONE), fake.n_tasks);
		claimed += fake.calls[FAKE_CLAIM];
		parts_end(&p);
	}
	printf("# %zu claims\n", claimed);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(what_is_due_is_claimed_within_the_room_and_no_more),
	    cmocka_unit_test(what_is_due_is_started_by_its_claim_when_a_worker_is_free_for_each),
	    cmocka_unit_test(what_would_wait_for_a_worker_is_not_started_by_its_claim),
	    cmocka_unit_test(what_its_claim_has_started_is_found_when_the_answer_was_lost),
	    cmocka_unit_test(what_is_due_within_lookahead_is_claimed_ahead_and_what_is_later_is_not),
	    cmocka_unit_test(what_is_planned_is_late_by_the_answer_about_the_clock_and_not_by_the_look),
	    cmocka_unit_test(beside_a_backlog_an_empty_lane_is_read_now_and_then),
	    cmocka_unit_test(what_a_slow_look_has_found_is_not_behind_what_the_next_ones_find),
	    cmocka_unit_test(what_is_due_does_not_wait_for_a_clock_that_was_asked_slowly),
	    cmocka_unit_test(when_a_clock_is_set_the_order_follows),
	    cmocka_unit_test(what_is_due_does_not_wait_until_the_clock_has_been_asked),
	    cmocka_unit_test(an_answer_that_was_lost_is_asked_about_and_nothing_is_forgotten),
	    cmocka_unit_test(without_a_lease_or_while_it_drains_or_is_ill_nothing_is_looked_at),
	    cmocka_unit_test(
		a_look_during_which_the_lease_ended_or_the_node_began_to_stop_is_not_followed_by_a_claim),
	    cmocka_unit_test(what_misfired_is_settled_before_it_is_claimed),
	    cmocka_unit_test(what_cannot_be_settled_keeps_nothing_else_waiting),
	    cmocka_unit_test(a_locked_row_keeps_no_other_waiting_and_is_claimed_when_it_is_free),
	    cmocka_unit_test(at_most_once_tasks_are_left_to_others_where_they_might_be_forgotten),
	    cmocka_unit_test(a_node_that_finds_nothing_asks_once_for_its_own_shards_and_those_of_others),
	    cmocka_unit_test(
		among_many_nodes_rings_are_gathered_and_a_node_that_always_finds_something_wants_none),
	    cmocka_unit_test(among_many_nodes_one_that_finds_something_two_times_of_three_wants_no_bell),
	    cmocka_unit_test(among_many_nodes_one_that_is_seldom_rung_wants_the_bell),
	    cmocka_unit_test(among_many_nodes_a_ring_after_a_while_is_answered_at_once),
	    cmocka_unit_test(what_others_have_planned_is_taken_steal_after_its_time_however_quiet_it_was),
	    cmocka_unit_test(
		among_many_what_one_has_left_is_found_within_some_looks_and_what_was_seen_at_its_time),
	    cmocka_unit_test(a_server_that_is_away_is_asked_less_and_less_often),
	    cmocka_unit_test(in_random_histories_claims_keep_within_the_room_and_nothing_is_forgotten),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
