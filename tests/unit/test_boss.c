/* The boss, by hand: what it starts and when, what it gives back, and how much may be claimed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/args.h"
#include "parts.h"
#include "random.h"

#define HISTORIES 3000
#define STEPS     60

static struct parts p;
static int64_t next_id;

static void
begin(void)
{
	hand_start();
	fake_start(random_below(1000000) + 1);
	parts_make(&p);
	parts_register(&p, 11, 3600 * US_PER_S);
	next_id = 0;
}

static struct run *
new_run(int64_t due_us)
{
	struct run *r = run_create(++next_id, 1, atomic_load(&p.n.incarnation));

	r->due_mono_us = r->due_us = due_us;
	r->band = 2;
	r->task.kind = xstrdup("test");
	return r;
}

static struct run *
give(int64_t due_us)
{
	struct run *r = new_run(due_us);

	boss_give(p.n.boss, r, (struct room){0});
	return r;
}

static struct run *
pop(struct mailbox *m)
{
	struct mail *mail;

	return mailbox_pop_until(m, 0, &mail) == RC_OK ? run_of(mail) : NULL;
}

/* The starter's part: it is on record as started, and a worker has it. */
static void
started(struct run *r, int64_t timeout_us)
{
	r->started = true;
	r->begun_us = clock_mono_us();
	atomic_store(&r->sign_us, r->begun_us);
	r->task.timeout_us = timeout_us;
	boss_begun(p.n.boss, r);
	p.at_work[p.n_at_work++] = r;
}

static void
ended(size_t i)
{
	struct run *r = p.at_work[i];

	p.at_work[i] = p.at_work[--p.n_at_work];
	boss_idle(p.n.boss, r);
	boss_settled(p.n.boss, run_chain(r, NULL));
}

/* The boss sleeps and wakes as it wants, until then. */
static void
sleep_until(int64_t until_us)
{
	while (clock_mono_us() < until_us)
		(void)HAND_ROUND(until_us, boss_round(p.n.boss));
	hand.round = false;
}

static void
a_task_is_handed_on_when_it_is_due_less_the_lead_and_not_before(void **unused)
{
	begin();
	int64_t due = clock_mono_us() + 3 * US_PER_S;
	struct run *r = give(due);

	parts_boss(&p);
	while (mailbox_count(p.n.start_queue) == 0)
		(void)HAND_ROUND(CLOCK_NEVER, boss_round(p.n.boss));
	assert_int_equal(clock_mono_us(), due - LEAD_US);
	assert_ptr_equal(pop(p.n.start_queue), r);
	parts_end(&p);
}

static void
the_most_urgent_goes_first_and_a_band_counts_as_waiting(void **unused)
{
	begin();
	int64_t now = clock_mono_us();

	for (int i = 0; i < 4; i++)
		give(now - 1); /* all workers are taken */
	parts_boss(&p);
	struct run *plain = give(now - 20), *older = give(now - 30), *important = give(now - 10);

	important->band = 3;
	parts_boss(&p);
	for (int i = 0; i < 4; i++)
		started(pop(p.n.start_queue), 60 * US_PER_S);
	struct run *order[] = {important, older, plain};

	for (int i = 0; i < 3; i++) {
		assert_null(pop(p.n.start_queue));
		ended(0);
		parts_boss(&p);
		assert_ptr_equal(pop(p.n.start_queue), order[i]);
	}
	parts_end(&p);
}

/* A look and a claim of one row cost nearly as much as those of a hundred. */
static void
when_many_end_in_a_moment_there_is_room_for_many_or_for_none(void **unused)
{
	begin();
	int64_t now = clock_mono_us(), burst = 40;

	for (int i = 0; i < burst; i++) {
		give(now - 1);
		parts_boss(&p);
		started(pop(p.n.start_queue), 60 * US_PER_S);
		ended(0);
		parts_boss(&p);
	}
	struct room room = boss_take_room(p.n.boss);

	assert_true(room.ready[0] > burst / 2);
	for (int64_t i = 0; i < room.ready[0] - burst / 2; i++)
		give(now - 1);
	boss_give(p.n.boss, NULL, room);
	parts_boss(&p);
	assert_int_equal(boss_take_room(p.n.boss).ready[0], 0); /* though half of it is left */
	started(pop(p.n.start_queue), 60 * US_PER_S);
	ended(0);
	parts_boss(&p);
	assert_true(boss_take_room(p.n.boss).ready[0] > burst / 2);
	parts_end(&p);
}

static void
a_due_task_that_finds_no_worker_goes_back_after_steal_after(void **unused)
{
	begin();
	int64_t now = clock_mono_us();

	for (int i = 0; i < 4; i++)
		give(now);
	parts_boss(&p);
	for (int i = 0; i < 4; i++)
		started(pop(p.n.start_queue), 60 * US_PER_S);
	struct run *r = give(now);

	sleep_until(now + p.set.steal_after_us);
	assert_null(pop(p.n.start_queue));
	sleep_until(now + p.set.steal_after_us + 300 * US_PER_MS);
	assert_ptr_equal(pop(p.n.start_queue), r);
	assert_true(r->place.release);
	parts_end(&p);
}

/* As claim.sql has started it. */
static struct run *
give_started(int64_t due_us)
{
	struct run *r = new_run(due_us);

	r->started = true;
	boss_give(p.n.boss, r, (struct room){0});
	return r;
}

/* Four are with the workers, this one waits. */
static struct run *
give_waiting(void)
{
	int64_t now = clock_mono_us();
	struct run *r;

	for (int i = 0; i < 4; i++)
		give_started(now - 1);
	parts_boss(&p);
	for (int i = 0; i < 4; i++)
		started(pop(p.n.run_queue), 60 * US_PER_S);
	r = give_started(now);
	parts_boss(&p);
	assert_null(pop(p.n.run_queue));
	return r;
}

static void
returned(struct run *r, enum outcome o)
{
	struct run *back = pop(p.n.finish_queue);

	assert_ptr_equal(back, r);
	assert_int_equal(r->end.outcome, o);
	assert_int_equal(mailbox_count(p.n.run_queue) + mailbox_count(p.n.start_queue), 0);
	boss_settled(p.n.boss, run_chain(r, NULL));
	atomic_fetch_sub(&p.n.ended, 1);
	parts_boss(&p);
	assert_int_equal(p.n.boss->n_in_hand, 4);
	assert_int_equal(p.n.boss->crew[0].idle, 0);
	assert_int_equal(p.n.boss->crew[0].out, 4);
}

static void
what_its_claim_has_started_goes_to_a_worker_and_can_be_stopped(void **unused)
{
	begin();
	struct run *r = give_started(clock_mono_us());

	parts_boss(&p);
	assert_ptr_equal(pop(p.n.run_queue), r);
	assert_true(r->stop.fd >= 0);
	assert_int_equal(p.n.boss->crew[0].idle, 3);
	started(r, 60 * US_PER_S);
	boss_cancel(p.n.boss, r->id, r->version);
	parts_boss(&p);
	assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_CANCEL);
	parts_end(&p);
}

static struct run *
give_text(const char *owner)
{
	struct run *r = new_run(clock_mono_us());

	r->started = true;
	free(r->task.kind);
	r->task.kind = xstrdup("sql");
	r->task.owner = xstrdup(owner);
	r->task.timeout_us = 60 * US_PER_S;
	boss_give(p.n.boss, r, (struct room){0});
	return r;
}

/* As many as are in the unit, which ends with the worker free: `left` of them were not carried out. */
static int64_t
work_off(struct run *first, int64_t left, bool alone)
{
	struct run *back = NULL, *done = NULL, *next;
	int64_t n = 0;

	for (struct run *r = first; r != NULL; r = next, n++) {
		next = r->place.unit;
		r->begun_us = clock_mono_us();
		boss_begun(p.n.boss, r);
		r->alone = n < left && alone;
		if (n < left)
			back = run_chain(r, back);
		else
			done = run_chain(r, done);
	}
	boss_idle_again(p.n.boss, first, back);
	boss_settled(p.n.boss, done);
	parts_boss(&p);
	return n;
}

static void
sql_runs_that_wait_in_a_row_go_to_one_worker(void **unused)
{
	begin();
	p.set.sql_group = p.n.boss->group_max = 4;
	struct run *first[4], *r;

	for (size_t i = 0; i < 4; i++)
		give_text("a"); /* all workers are taken, by one each */
	parts_boss(&p);
	for (size_t i = 0; i < 4; i++) {
		first[i] = pop(p.n.run_queue);
		assert_null(first[i]->place.unit);
	}
	for (size_t i = 0; i < 6; i++)
		give_text("a");
	give_text("b");
	parts_boss(&p);
	assert_null(pop(p.n.run_queue));
	assert_int_equal(work_off(first[0], 0, false), 1);
	r = pop(p.n.run_queue);
	assert_int_equal(work_off(r, 0, false), 4);
	r = pop(p.n.run_queue); /* what is left of this owner's */
	assert_int_equal(work_off(r, 0, false), 2);
	r = pop(p.n.run_queue);
	assert_string_equal(r->task.owner, "b");
	assert_int_equal(work_off(r, 0, false), 1);
	assert_int_equal(p.n.boss->crew[0].idle, 1);
	assert_int_equal(p.n.boss->crew[0].out, 3);
	for (size_t i = 1; i < 4; i++)
		assert_int_equal(work_off(first[i], 0, false), 1);
	assert_int_equal(p.n.boss->crew[0].out, 0);
	assert_int_equal(p.n.boss->n_in_hand, 0);
	parts_end(&p);
}

static void
what_may_not_begin_again_or_has_no_time_to_wait_is_in_no_group(void **unused)
{
	begin();
	p.set.sql_group = p.n.boss->group_max = 4;
	struct run *plain[5], *odd[5], *busy[4];

	for (size_t i = 0; i < 4; i++)
		give_text("a");
	parts_boss(&p);
	for (size_t i = 0; i < 4; i++)
		busy[i] = pop(p.n.run_queue);
	for (size_t i = 0; i < 5; i++) {
		plain[i] = give_text("a");
		odd[i] = give_text("a");
	}
	odd[0]->once = true;
	odd[1]->alone = true;
	odd[2]->task.timeout_us = US_PER_S - 1;
	odd[3]->task.stall_us = US_PER_S - 1;
	odd[4]->task.spare_us = 0;
	parts_boss(&p);
	assert_int_equal(work_off(busy[0], 0, false), 1);
	for (size_t i = 0; i < 5; i++) {
		assert_ptr_equal(pop(p.n.run_queue), plain[i]);
		assert_int_equal(work_off(plain[i], 0, false), 1);
		assert_ptr_equal(pop(p.n.run_queue), odd[i]);
		assert_int_equal(work_off(odd[i], 0, false), 1);
	}
	for (size_t i = 1; i < 4; i++)
		(void)work_off(busy[i], 0, false);
	assert_int_equal(p.n.boss->n_in_hand, 0);
	parts_end(&p);
}

static void
what_leaves_its_group_goes_to_a_worker_by_itself_or_ends_with_a_cancel(void **unused)
{
	begin();
	p.set.sql_group = p.n.boss->group_max = 4;
	struct run *busy[4], *r, *cancelled;

	for (size_t i = 0; i < 4; i++)
		give_text("a");
	parts_boss(&p);
	for (size_t i = 0; i < 4; i++)
		busy[i] = pop(p.n.run_queue);
	for (size_t i = 0; i < 4; i++)
		give_text("a");
	parts_boss(&p);
	(void)work_off(busy[0], 0, false);
	r = pop(p.n.run_queue);
	cancelled = r->place.unit;
	boss_cancel(p.n.boss, cancelled->id, cancelled->version);
	parts_boss(&p);
	assert_int_equal(work_off(r, 3, true), 4); /* the first three */
	assert_int_equal(p.n.boss->group_max, 1);
	assert_ptr_equal(pop(p.n.finish_queue), cancelled);
	assert_int_equal(cancelled->end.outcome, OUTCOME_CANCELLED);
	boss_settled(p.n.boss, run_chain(cancelled, NULL));
	assert_ptr_equal(pop(p.n.run_queue), r);
	assert_int_equal(work_off(r, 0, false), 1);
	r = pop(p.n.run_queue);
	assert_true(r->alone);
	assert_int_equal(work_off(r, 0, false), 1);
	for (size_t i = 1; i < 4; i++)
		(void)work_off(busy[i], 0, false);
	assert_int_equal(p.n.boss->crew[0].idle, 4);
	assert_int_equal(p.n.boss->n_in_hand, 0);
	assert_int_equal(p.n.boss->group_max, 4);
	parts_end(&p);
}

static void
the_starter_gets_what_its_claim_has_started_only_for_its_secrets(void **unused)
{
	begin();
	static const char args[] = "{\"env\": {\"TOKEN\": {\"secret\": \"name\"}}}";
	struct run *r = new_run(clock_mono_us());
	struct err err;

	r->started = true;
	assert_int_equal(args_read(args, strlen(args), &r->task.args, &err), RC_OK);
	boss_give(p.n.boss, r, (struct room){0});
	parts_boss(&p);
	assert_ptr_equal(pop(p.n.start_queue), r);
	assert_true(r->stop.fd >= 0 && !r->place.release);
	parts_end(&p);
}

static void
what_is_started_and_finds_no_worker_goes_back_at_no_attempt(void **unused)
{
	begin();
	int64_t now = clock_mono_us();
	struct run *r = give_waiting();

	sleep_until(now + p.set.steal_after_us);
	assert_int_equal(mailbox_count(p.n.finish_queue), 0);
	sleep_until(now + p.set.steal_after_us + 300 * US_PER_MS);
	assert_int_equal(r->end.retry_us, RETRY_UNCOUNTED);
	returned(r, OUTCOME_NOT_STARTED);
	parts_end(&p);
}

static void
what_is_started_and_waits_ends_with_a_cancel_and_goes_back_with_a_drain(void **unused)
{
	begin();
	struct run *r = give_waiting();

	boss_cancel(p.n.boss, r->id, r->version + 1);
	parts_boss(&p);
	assert_int_equal(mailbox_count(p.n.finish_queue), 0);
	boss_cancel(p.n.boss, r->id, r->version);
	parts_boss(&p);
	returned(r, OUTCOME_CANCELLED);
	parts_end(&p);
	for (int i = 0; i < 2; i++) {
		begin();
		r = give_waiting();
		i == 0 ? boss_drain(p.n.boss) : boss_stop_runs(p.n.boss, PGRAB_STOP_SHUTDOWN);
		parts_boss(&p);
		returned(r, OUTCOME_NOT_STARTED);
		r = give_started(clock_mono_us()); /* claimed before the loader knew */
		parts_boss(&p);
		returned(r, OUTCOME_NOT_STARTED);
		parts_end(&p);
	}
}

static void
as_many_may_be_started_by_their_claims_as_begin_at_once(void **unused)
{
	begin();
	int64_t now = clock_mono_us();

	assert_int_equal(boss_take_room(p.n.boss).begins, 4);
	assert_int_equal(boss_take_room(p.n.boss).begins, 0);
	boss_give(p.n.boss, NULL, (struct room){.ready = {4}, .timed = TIMED_MAX, .begins = 4});
	for (int i = 0; i < 20; i++) { /* short ones */
		give_started(now - 1);
		parts_boss(&p);
		started(pop(p.n.run_queue), 60 * US_PER_S);
		ended(0);
		parts_boss(&p);
	}
	assert_int_equal(p.n.boss->room.begins, 4 + 20);
	hand_turn(3 * BURST_US);
	for (int i = 0; i < 5; i++) /* long ones */
		give_started(now);
	parts_boss(&p);
	assert_int_equal(p.n.boss->room.begins, -1);
	parts_end(&p);
}

static void
a_run_is_stopped_at_its_timeout_or_when_it_shows_no_sign_of_life(void **unused)
{
	begin();
	int64_t now = clock_mono_us();
	struct run *slow = give(now), *mute = give(now), *lively = give(now);

	parts_boss(&p);
	for (int i = 0; i < 3; i++)
		started(pop(p.n.start_queue), 10 * US_PER_S);
	mute->task.stall_us = lively->task.stall_us = 4 * US_PER_S;
	parts_boss(&p);
	sleep_until(now + 3 * US_PER_S);
	atomic_store(&lively->sign_us, clock_mono_us());
	sleep_until(now + 4 * US_PER_S - 1);
	assert_int_equal(atomic_load(&mute->stop.why), PGRAB_STOP_NONE);
	sleep_until(now + 4 * US_PER_S);
	assert_int_equal(atomic_load(&mute->stop.why), PGRAB_STOP_TIMEOUT);
	assert_true(atomic_load(&mute->stop.stalled));
	assert_int_equal(atomic_load(&lively->stop.why), PGRAB_STOP_NONE);
	sleep_until(now + 7 * US_PER_S);
	assert_int_equal(atomic_load(&lively->stop.why), PGRAB_STOP_TIMEOUT);
	sleep_until(now + 10 * US_PER_S - 1);
	assert_int_equal(atomic_load(&slow->stop.why), PGRAB_STOP_NONE);
	sleep_until(now + 10 * US_PER_S);
	assert_int_equal(atomic_load(&slow->stop.why), PGRAB_STOP_TIMEOUT);
	assert_false(atomic_load(&slow->stop.stalled));
	parts_end(&p);
}

static void
what_runs_is_stopped_when_the_lease_is_over_though_nobody_says_so(void **unused)
{
	begin();
	int64_t now = clock_mono_us();

	lease_renew(&p.n.lease, clock_boot_us(), 5 * US_PER_S);
	struct run *r = give(now);

	parts_boss(&p);
	started(pop(p.n.start_queue), 60 * US_PER_S);
	sleep_until(now + 5 * US_PER_S - 1);
	assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_NONE);
	sleep_until(now + 5 * US_PER_S);
	assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_FENCED);
	parts_end(&p);
}

static void
a_machine_that_slept_has_lost_its_lease_when_it_wakes(void **unused)
{
	begin();
	lease_renew(&p.n.lease, clock_boot_us(), 5 * US_PER_S);
	struct run *r = give(clock_mono_us());

	parts_boss(&p);
	started(pop(p.n.start_queue), 60 * US_PER_S);
	parts_boss(&p);
	hand.boot_ahead_us += 3600 * US_PER_S;
	parts_boss(&p);
	assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_FENCED);
	parts_end(&p);
}

static void
a_cancel_stops_that_run_of_that_version_and_no_other(void **unused)
{
	begin();
	struct run *one = give(clock_mono_us()), *two = give(clock_mono_us());

	parts_boss(&p);
	started(pop(p.n.start_queue), 60 * US_PER_S);
	started(pop(p.n.start_queue), 60 * US_PER_S);
	boss_cancel(p.n.boss, one->id, one->version + 1);
	boss_cancel(p.n.boss, two->id, two->version);
	parts_boss(&p);
	assert_int_equal(atomic_load(&one->stop.why), PGRAB_STOP_NONE);
	assert_int_equal(atomic_load(&two->stop.why), PGRAB_STOP_CANCEL);
	boss_stop_runs(p.n.boss, PGRAB_STOP_SHUTDOWN); /* the first reason stands, but for a fence */
	parts_boss(&p);
	assert_int_equal(atomic_load(&one->stop.why), PGRAB_STOP_SHUTDOWN);
	assert_int_equal(atomic_load(&two->stop.why), PGRAB_STOP_CANCEL);
	boss_fence(p.n.boss);
	parts_boss(&p);
	assert_int_equal(atomic_load(&two->stop.why), PGRAB_STOP_FENCED);
	parts_end(&p);
}

/* All four workers have runs of band 2 that may be stopped after spare_us. */
static void
four_preemptible(int64_t spare_us)
{
	int64_t now = clock_mono_us();

	p.set.preempt_after_us = 10 * US_PER_S;
	for (int i = 0; i < 4; i++)
		give(now - 1);
	parts_boss(&p);
	for (int i = 0; i < 4; i++) {
		struct run *r = pop(p.n.start_queue);

		r->task.spare_us = spare_us;
		started(r, 3600 * US_PER_S);
		parts_boss(&p);
		hand_turn(US_PER_S);
	}
	parts_boss(&p);
}

static size_t
given_way(void)
{
	size_t n = 0;

	for (size_t i = 0; i < p.n_at_work; i++)
		n += atomic_load(&p.at_work[i]->stop.why) == PGRAB_STOP_PREEMPTED;
	return n;
}

static struct run *
give_urgent(int64_t late_us, int band)
{
	struct run *r = new_run(clock_mono_us() - late_us);

	r->band = band;
	boss_give(p.n.boss, r, (struct room){0});
	return r;
}

static void
the_shortest_run_gives_way_to_what_is_two_bands_above_and_has_waited_and_no_other(void **unused)
{
	begin();
	four_preemptible(0);
	give_urgent(60 * US_PER_S, 3);
	give_urgent(60 * US_PER_S, 2);
	parts_boss(&p);
	assert_int_equal(given_way(), 0);
	struct run *urgent = give_urgent(9 * US_PER_S, 4);

	give_urgent(3600 * US_PER_S, 3);

	parts_boss(&p);
	assert_int_equal(given_way(), 0);
	sleep_until(urgent->due_mono_us + p.set.preempt_after_us);
	assert_int_equal(given_way(), 1);
	assert_int_equal(atomic_load(&p.at_work[3]->stop.why), PGRAB_STOP_PREEMPTED);
	sleep_until(clock_mono_us() + 3 * US_PER_S); /* it takes its time, and the urgent one waits for it */
	assert_int_equal(given_way(), 1);
	ended(3);
	parts_boss(&p);
	for (int i = 0; i < 3; i++)
		assert_true(pop(p.n.start_queue)->place.release); /* the others have gone back meanwhile */
	assert_ptr_equal(pop(p.n.start_queue), urgent);
	parts_end(&p);
}

static void
what_goes_back_before_a_run_has_given_way_leaves_its_worker_to_the_next(void **unused)
{
	begin();
	four_preemptible(0);
	struct run *urgent = give_urgent(60 * US_PER_S, 4), *next;

	sleep_until(clock_mono_us() + p.set.kill_grace_us + p.set.steal_after_us + 300 * US_PER_MS);
	assert_true(urgent->place.release);
	assert_ptr_equal(pop(p.n.start_queue), urgent);
	next = give_urgent(60 * US_PER_S, 4);
	parts_boss(&p);
	assert_int_equal(given_way(), 1);
	ended(3);
	parts_boss(&p);
	assert_ptr_equal(pop(p.n.start_queue), next);
	parts_end(&p);
}

static void
a_run_is_spared_until_it_has_had_as_long_as_was_lost(void **unused)
{
	begin();
	int64_t now = clock_mono_us();

	four_preemptible(30 * US_PER_S);
	assert_int_equal(boss_take_room(p.n.boss).urgent[0], 0);
	hand_turn(now + 30 * US_PER_S - 1 - clock_mono_us());
	struct run *early = give_urgent(60 * US_PER_S, 5);

	parts_boss(&p);
	assert_int_equal(given_way(), 0);
	boss_cancel(p.n.boss, early->id, early->version);
	hand_turn(1);
	for (int i = 0; i < 3; i++)
		give_urgent(60 * US_PER_S, 5);
	parts_boss(&p);
	assert_int_equal(given_way(), 1);
	assert_int_equal(atomic_load(&p.at_work[0]->stop.why), PGRAB_STOP_PREEMPTED);
	hand_turn(2 * US_PER_S);
	parts_boss(&p);
	assert_int_equal(given_way(), 3);
	parts_end(&p);
}

static void
there_is_urgent_room_for_as_much_as_gives_way_less_what_waits(void **unused)
{
	begin();
	four_preemptible(0);
	assert_int_equal(p.n.boss->room.urgent[0], 4);
	assert_int_equal(p.n.boss->room.from_band[0], 4);
	p.at_work[1]->band = 1;
	parts_boss(&p);
	assert_int_equal(p.n.boss->room.urgent[0], 1);
	assert_int_equal(p.n.boss->room.from_band[0], 3);
	p.at_work[1]->band = 2;
	parts_boss(&p);
	struct room room = boss_take_room(p.n.boss);

	parts_boss(&p);
	assert_true(p.n.boss->room.urgent[0] <= 0);
	boss_give(p.n.boss, NULL, room);
	give_urgent(60 * US_PER_S, 4);
	parts_boss(&p);
	assert_int_equal(given_way(), 1);
	assert_int_equal(p.n.boss->room.urgent[0], 3);
	p.set.preempt_after_us = 0;
	parts_boss(&p);
	assert_int_equal(p.n.boss->room.urgent[0], 0);
	parts_end(&p);
}

static void
leaks_are_the_rows_that_are_not_in_hand(void **unused)
{
	begin();
	struct run *here = give(clock_mono_us() + US_PER_S);
	struct owned rows[] = {{.id = 900, .version = 1}, {.id = here->id, .version = here->version},
	    {.id = here->id, .version = here->version + 1}};

	hand.others = (void (*)(void *))parts_boss;
	hand.ctx = &p;
	assert_int_equal(boss_leaks(p.n.boss, rows, 3), 2);
	assert_int_equal(rows[0].id, 900);
	assert_int_equal(rows[1].version, here->version + 1);
	parts_end(&p);
}

/*
 * Random histories: arrivals within the room that was granted, starts that are refused, runs that end,
 * drains, fences.
 * After each round what holds is looked at.
 */
struct model {
	size_t given, over, forgotten;
	bool draining, away;
	struct room room; /* that the loader has taken, under this incarnation */
	int64_t incarnation;
};

/* A loader has taken all room there is, and is away with it; then it is back with what it has claimed. */
static void
leave(struct model *m)
{
	m->room = boss_take_room(p.n.boss);
	m->away = true;
	m->incarnation = atomic_load(&p.n.incarnation);
}

static void
come_back(struct model *m)
{
	int64_t ready = random_below(3), timed = random_below(4), now = clock_mono_us();
	struct run *chain = NULL;

	ready = ready < m->room.ready[0] ? ready : m->room.ready[0];
	timed = timed < m->room.timed ? timed : m->room.timed;
	for (int64_t i = 0; i < ready + timed; i++) {
		struct run *r =
		    new_run(i < ready ? now - random_below(100000) : now + 1 + random_below(5000000));

		r->band = 1 + (int)random_below(5);
		r->incarnation = m->incarnation;
		r->started = i < ready && random_below(2) == 0;
		chain = run_chain(r, chain);
		m->given++;
		m->forgotten += m->incarnation != atomic_load(&p.n.incarnation);
	}
	boss_give(p.n.boss, chain, m->room);
	m->room = (struct room){0};
	m->away = false;
}

/* What came out: handed back, or started, in the order of rank; not before it is due, not while it drains. */
static void
take_out(struct model *m)
{
	int64_t rank = INT64_MIN;
	struct run *r;

	while ((r = pop(p.n.finish_queue)) != NULL) {
		assert_int_equal(r->end.outcome, OUTCOME_NOT_STARTED);
		m->over++;
		boss_settled(p.n.boss, run_chain(r, NULL));
	}
	while ((r = pop(p.n.run_queue)) != NULL) {
		assert_true(r->started && r->stop.fd >= 0 && !m->draining);
		assert_int_equal(r->incarnation, atomic_load(&p.n.incarnation));
		started(r, 1 + random_below(3000000));
	}
	while ((r = pop(p.n.start_queue)) != NULL) {
		if (r->place.release) {
			m->over++;
			boss_settled(p.n.boss, run_chain(r, NULL));
			continue;
		}
		assert_true(clock_mono_us() >= r->due_mono_us - LEAD_US);
		assert_true(rank_us(r->due_mono_us, r->band) >= rank);
		rank = rank_us(r->due_mono_us, r->band);
		assert_int_equal(r->incarnation, atomic_load(&p.n.incarnation));
		assert_false(m->draining);
		if (random_below(8) == 0) { /* refused by the database */
			m->over++;
			boss_settled(p.n.boss, run_chain(r, NULL));
		} else {
			started(r, 1 + random_below(3000000));
		}
	}
}

static void
check(struct model *m)
{
	struct boss *b = p.n.boss;
	const struct run *next = heap_min(b->delayed);
	int64_t waiting = (int64_t)heap_count(b->crew[0].ready) + b->crew[0].out;

	assert_int_equal(b->n_in_hand, m->given - m->over - m->forgotten);
	assert_true(next == NULL || next->due_mono_us - LEAD_US > clock_mono_us());
	assert_true(b->crew[0].idle == 0 || heap_min(b->crew[0].ready) == NULL);
	assert_true(b->crew[0].idle >= 0 && b->crew[0].idle <= b->crew[0].slots);
	assert_true(waiting <= b->crew[0].slots + BURST_MAX);
	assert_true(b->room.ready[0] <= b->crew[0].slots + b->crew[0].burst);
	assert_int_equal(b->taken.ready[0], m->room.ready[0]);
	assert_int_equal(b->taken.timed, m->room.timed);
	assert_true(m->room.timed + b->room.timed + (int64_t)heap_count(b->delayed) <= TIMED_MAX);
	assert_true(!m->draining || (b->room.ready[0] == 0 && b->room.timed == 0));
	assert_true(!m->draining || heap_count(b->delayed) + heap_count(b->crew[0].ready) == 0);
}

static void
one_round(struct model *m, int64_t until_us)
{
	(void)HAND_ROUND(until_us, boss_round(p.n.boss));
	hand.round = false;
	check(m);
	take_out(m);
}

static void
fence(struct model *m)
{
	struct boss *b = p.n.boss;

	boss_fence(b);
	atomic_fetch_add(&p.n.incarnation, 1);
	(void)HAND_ROUND(0, boss_round(b));
	m->forgotten = m->given - m->over - b->n_in_hand;
	one_round(m, 0);
	/* Only what a worker has is left, and it is told to stop. */
	assert_int_equal(heap_count(b->delayed) + heap_count(b->crew[0].ready), 0);
	assert_int_equal(b->n_in_hand, p.n_at_work);
	for (size_t i = 0; i < p.n_at_work; i++)
		assert_int_equal(atomic_load(&p.at_work[i]->stop.why), PGRAB_STOP_FENCED);
}

static void
step(struct model *m)
{
	int64_t until = clock_mono_us() + random_below(700000);

	switch (random_below(12)) {
	case 0: fence(m); break;
	case 1:
		boss_drain(p.n.boss);
		m->draining = true;
		break;
	case 2:
		boss_undrain(p.n.boss);
		m->draining = false;
		break;
	case 3:
	case 4:
	case 5: m->away ? come_back(m) : leave(m); break;
	case 6:
	case 7:
		if (p.n_at_work > 0) {
			ended(random_below((unsigned)p.n_at_work));
			m->over++;
		}
		break;
	default:
		while (clock_mono_us() < until)
			one_round(m, until);
	}
	one_round(m, 0);
}

/* Everything ends: nothing is in hand, and all room is back. */
static void
wind_up(struct model *m)
{
	struct boss *b = p.n.boss;

	if (m->away)
		come_back(m);
	m->draining = false;
	boss_undrain(b);
	one_round(m, 0);
	while (b->n_in_hand > 0) {
		while (p.n_at_work > 0) {
			ended(0);
			m->over++;
		}
		one_round(m, clock_mono_us() + US_PER_S);
	}
	hand_turn(US_PER_S); /* the window of what has just ended is over */
	one_round(m, 0);
	one_round(m, 0);
	assert_int_equal(m->over + m->forgotten, m->given);
	assert_int_equal(b->crew[0].idle, b->crew[0].slots);
	assert_int_equal(b->crew[0].out, 0);
	assert_int_equal(b->room.ready[0], b->crew[0].slots);
	assert_int_equal(b->room.timed, TIMED_MAX);
	assert_int_equal(heap_count(b->timeouts), 0);
	assert_true(boss_wait_empty(b, 0));
}

static void
in_random_histories_nothing_is_early_lost_or_doubled_and_room_comes_back(void **unused)
{
	size_t given = 0, over = 0;

	for (int h = 0; h < HISTORIES; h++) {
		struct model m = {0};

		begin();
		for (int i = 0; i < STEPS; i++)
			step(&m);
		wind_up(&m);
		parts_end(&p);
		given += m.given;
		over += m.over;
	}
	printf("# %d histories, %zu tasks, %zu ended or went back, the others were fenced\n", HISTORIES,
	    given, over);
	assert_true(over > given / 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_task_is_handed_on_when_it_is_due_less_the_lead_and_not_before),
	    cmocka_unit_test(the_most_urgent_goes_first_and_a_band_counts_as_waiting),
	    cmocka_unit_test(when_many_end_in_a_moment_there_is_room_for_many_or_for_none),
	    cmocka_unit_test(a_due_task_that_finds_no_worker_goes_back_after_steal_after),
	    cmocka_unit_test(what_its_claim_has_started_goes_to_a_worker_and_can_be_stopped),
	    cmocka_unit_test(sql_runs_that_wait_in_a_row_go_to_one_worker),
	    cmocka_unit_test(what_may_not_begin_again_or_has_no_time_to_wait_is_in_no_group),
	    cmocka_unit_test(what_leaves_its_group_goes_to_a_worker_by_itself_or_ends_with_a_cancel),
	    cmocka_unit_test(the_starter_gets_what_its_claim_has_started_only_for_its_secrets),
	    cmocka_unit_test(what_is_started_and_finds_no_worker_goes_back_at_no_attempt),
	    cmocka_unit_test(what_is_started_and_waits_ends_with_a_cancel_and_goes_back_with_a_drain),
	    cmocka_unit_test(as_many_may_be_started_by_their_claims_as_begin_at_once),
	    cmocka_unit_test(a_run_is_stopped_at_its_timeout_or_when_it_shows_no_sign_of_life),
	    cmocka_unit_test(what_runs_is_stopped_when_the_lease_is_over_though_nobody_says_so),
	    cmocka_unit_test(a_machine_that_slept_has_lost_its_lease_when_it_wakes),
	    cmocka_unit_test(a_cancel_stops_that_run_of_that_version_and_no_other),
	    cmocka_unit_test(
		the_shortest_run_gives_way_to_what_is_two_bands_above_and_has_waited_and_no_other),
	    cmocka_unit_test(what_goes_back_before_a_run_has_given_way_leaves_its_worker_to_the_next),
	    cmocka_unit_test(a_run_is_spared_until_it_has_had_as_long_as_was_lost),
	    cmocka_unit_test(there_is_urgent_room_for_as_much_as_gives_way_less_what_waits),
	    cmocka_unit_test(leaks_are_the_rows_that_are_not_in_hand),
	    cmocka_unit_test(in_random_histories_nothing_is_early_lost_or_doubled_and_room_comes_back),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
