/* Large tasks, by hand: what takes several slots, or memory that is counted (ADR 43). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "node/loader/private.h"
#include "node/starter/private.h"
#include "parts.h"
#include "random.h"

#define WORKERS   4
#define HISTORIES 1000
#define GB        INT64_C(1000000000)

static struct parts p;
static int64_t next_id;

/* What the node does with its tasks; by hand: the test is the loader. */
static void
begin(struct need large, int64_t memory)
{
	hand_start();
	fake_start(random_below(1u << 30) + 1);
	fake.large = large;
	parts_make(&p);
	p.set.memory_bytes = memory;
	parts_register(&p, 11, 3600 * US_PER_S);
	parts_loaders(&p);
	parts_boss(&p);
	next_id = 1000;
}

static struct run *
give(int64_t due_us, struct need need)
{
	struct run *r = run_create(++next_id, 1, atomic_load(&p.n.incarnation));

	r->due_mono_us = r->due_us = due_us;
	r->band = 2;
	r->need = need;
	r->task.kind = xstrdup("test");
	boss_give(p.n.boss, r, (struct room){0});
	return r;
}

static struct run *
small(int64_t due_us)
{
	return give(due_us, (struct need){.slots = 1});
}

static struct run *
pop(struct mailbox *m)
{
	struct mail *mail;

	return mailbox_pop_until(m, 0, &mail) == RC_OK ? run_of(mail) : NULL;
}

/* The starter's part, and a worker's. */
static struct run *
started(void)
{
	struct run *r = pop(p.n.start_queue);

	if (r == NULL)
		return NULL;
	assert_false(r->place.release);
	r->started = true;
	r->begun_us = clock_mono_us();
	r->task.timeout_us = 3600 * US_PER_S;
	boss_begun(p.n.boss, r);
	return r;
}

static void
ended(struct run *r)
{
	boss_idle(p.n.boss, r);
	boss_settled(p.n.boss, run_chain(r, NULL));
	parts_boss(&p);
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
the_first_by_order_waits_for_its_slots_and_nothing_behind_it_takes_them(void **unused)
{
	begin((struct need){0}, 0);
	int64_t now = clock_mono_us();
	struct run *at_work[WORKERS];

	for (int i = 0; i < 3; i++) {
		small(now - 100);
		parts_boss(&p);
		at_work[i] = started();
	}
	struct run *large = give(now - 50, (struct need){.slots = 3}), *before = small(now - 60),
		   *behind = small(now - 40);

	parts_boss(&p);
	assert_ptr_equal(started(), before);
	assert_null(started());
	assert_true(boss_take_room(p.n.boss).ready[0] <= 0);
	ended(at_work[0]);
	ended(at_work[1]);
	assert_null(started());
	ended(before);
	assert_ptr_equal(started(), large);
	assert_int_equal(p.n.boss->crew[0].idle, 0);
	assert_null(started());
	ended(large);
	assert_ptr_equal(started(), behind);
	assert_int_equal(p.n.boss->crew[0].idle, 2);
	parts_end(&p);
}

static void
limits_of_memory_that_do_not_fit_together_wait_and_hold_up_nothing_else(void **unused)
{
	begin((struct need){0}, 8 * GB);
	int64_t now = clock_mono_us();
	struct run *first = give(now - 50, (struct need){.slots = 1, .memory = 5 * GB}), *second, *third,
		   *two, *none;

	parts_boss(&p);
	assert_ptr_equal(started(), first);
	second = give(now - 40, (struct need){.slots = 1, .memory = 4 * GB});
	third = give(
	    now - 30, (struct need){.slots = 1, .memory = GB}); /* would fit, and is behind one that waits */
	two = give(now - 25, (struct need){.slots = 2});
	none = small(now - 20);
	parts_boss(&p);
	assert_int_equal(atomic_load(&p.n.memory_used), 5 * GB);
	assert_int_equal(p.n.boss->room.memory, -2 * GB);
	assert_ptr_equal(started(), two);
	assert_ptr_equal(started(), none);
	assert_null(started());
	ended(two);
	assert_null(started());
	ended(first);
	assert_ptr_equal(started(), second);
	assert_ptr_equal(started(), third);
	assert_int_equal(atomic_load(&p.n.memory_used), 5 * GB);
	parts_end(&p);
}

static void
one_that_waits_long_goes_back_and_the_node_rests(void **unused)
{
	begin((struct need){0}, 0);
	int64_t now = clock_mono_us();
	struct run *large;

	small(now);
	parts_boss(&p);
	(void)started();
	large = give(now, (struct need){.slots = WORKERS});
	sleep_until(now + KEEP_US);
	assert_null(pop(p.n.start_queue));
	sleep_until(now + KEEP_US + 300 * US_PER_MS);
	assert_ptr_equal(pop(p.n.start_queue), large);
	assert_true(large->place.release);
	assert_true(atomic_load(&p.n.rests_until_us[0]) > clock_mono_us());
	boss_settled(p.n.boss, run_chain(large, NULL));
	now = clock_mono_us();
	large = give(now - 3 * KEEP_US, (struct need){.slots = WORKERS}); /* later it is kept for longer */
	sleep_until(now + 3 * KEEP_US);
	assert_null(pop(p.n.start_queue));
	sleep_until(now + 3 * KEEP_US + 300 * US_PER_MS);
	assert_ptr_equal(pop(p.n.start_queue), large);
	parts_end(&p);
}

static void
one_that_is_larger_than_its_crew_has_become_goes_back_and_holds_up_nothing(void **unused)
{
	begin((struct need){0}, 0);
	int64_t now = clock_mono_us();
	struct run *large, *behind;

	small(now);
	parts_boss(&p);
	(void)started();
	large = give(now, (struct need){.slots = WORKERS});
	behind = small(now);
	parts_boss(&p);
	assert_null(started());
	boss_slots(p.n.boss, 0, -1);
	parts_boss(&p);
	assert_ptr_equal(started(), behind);
	sleep_until(now + 300 * US_PER_MS);
	assert_ptr_equal(pop(p.n.start_queue), large);
	assert_true(large->place.release);
	parts_end(&p);
}

/* -------------------------------------------------------------------- with the loader, on the fake store */

static struct fake_task *
add_large(int64_t in_us)
{
	struct fake_task *t = fake_add(fake_now_us() + in_us);

	t->lane = FAKE_LARGE;
	return t;
}

static void
add_small(int n)
{
	for (int i = 0; i < n; i++)
		fake_add(fake_now_us() - 1);
}

/* Loader, boss, starter and workers do what there is to do now. */
static void
turn(void)
{
	parts_loader(&p);
	parts_boss(&p);
	parts_starter(&p);
	parts_begin_work(&p);
	parts_boss(&p);
}

static void
end_one(size_t i)
{
	parts_end_work(&p, i, OUTCOME_SUCCEEDED);
	parts_finisher(&p);
	parts_boss(&p);
}

static void
it_is_claimed_when_it_is_due_and_fits_and_the_boss_begins_it(void **unused)
{
	begin((struct need){.slots = WORKERS}, 0);
	struct fake_task *large = add_large(US_PER_S);

	turn();
	assert_int_equal(large->status, FAKE_SCHEDULED); /* though it is due within lookahead */
	hand_turn(US_PER_S);
	turn();
	assert_int_equal(large->status, FAKE_RUNNING);
	assert_int_equal(p.at_work[0]->need.slots, WORKERS);
	add_small(1);
	turn();
	assert_int_equal(p.n_at_work, 1);
	end_one(0);
	turn();
	assert_int_equal(p.n_at_work, 1);
	parts_end(&p);
}

static void
one_that_does_not_fit_is_claimed_when_it_is_late_and_then_nothing_else_is(void **unused)
{
	begin((struct need){.slots = 3}, 0);
	struct fake_task *large;

	add_small(2);
	turn();
	large = add_large(-1);
	hand_turn(US_PER_MS);
	add_small(1);
	turn();
	assert_int_equal(large->status, FAKE_SCHEDULED); /* smaller ones go on */
	assert_int_equal(p.n_at_work, 3);
	hand_turn(LARGE_LATE_US);
	turn();
	assert_int_equal(large->status, FAKE_CLAIMED);
	add_small(3);
	end_one(0);
	turn();
	assert_int_equal(p.n_at_work, 2);
	end_one(0);
	turn();
	assert_int_equal(large->status, FAKE_RUNNING);
	assert_int_equal(p.n_at_work, 2);
	parts_end(&p);
}

static void
while_it_waits_the_loader_sleeps_and_wakes_when_there_is_more_room(void **unused)
{
	begin((struct need){.slots = 3}, 0);
	unsigned looks;

	add_small(2);
	turn();
	add_large(-1);
	turn();
	looks = fake.calls[FAKE_LOOK];
	for (int64_t until = clock_mono_us() + LARGE_LATE_US / 2; clock_mono_us() < until;) {
		(void)HAND_ROUND(until, loader_round(loaders_at(p.loaders, 0)));
		hand.round = false;
		parts_boss(&p);
	}
	assert_in_range(fake.calls[FAKE_LOOK] - looks, 0, 8); /* the echoes of having been busy */
	end_one(0);
	(void)HAND_ROUND(clock_mono_us(), loader_round(loaders_at(p.loaders, 0)));
	hand.round = false;
	parts_boss(&p);
	parts_starter(&p);
	assert_int_equal(parts_begin_work(&p), 1);
	parts_end(&p);
}

static void
a_hundred_of_them_take_no_look_from_those_that_fit(void **unused)
{
	begin((struct need){.slots = 3}, 0);
	add_small(2);
	turn();
	hand_turn(60 * US_PER_S);
	atomic_store(&p.n.rests_until_us[0], INT64_MAX / 2);
	for (int i = 0; i < 100; i++)
		add_large(-30 * US_PER_S);
	add_small(2);
	turn();
	assert_int_equal(p.n_at_work, 4);
	parts_end(&p);
}

/* -------------------------------------------------------------------------------------- random histories */

struct load {
	int64_t ends_us[FAKE_TASKS + 1]; /* of what runs, by id */
	int64_t longest_us;
	size_t n_large;
	struct fake_task *large[8];
};

static void
check_in_use(struct need large, int64_t memory)
{
	int64_t slots = 0, bytes = 0;

	for (size_t i = 0; i < p.n_at_work; i++) {
		slots += p.at_work[i]->need.slots;
		bytes += p.at_work[i]->need.memory;
		if (fake_task(p.at_work[i]->id)->lane == FAKE_LARGE)
			assert_memory_equal(&p.at_work[i]->need, &large, sizeof large);
	}
	assert_in_range(slots, 0, WORKERS);
	assert_true(memory == 0 || bytes <= memory);
	assert_int_equal(p.n.boss->crew[0].idle, WORKERS - slots);
	assert_int_equal(p.n.boss->memory_out, bytes);
}

static void
step(struct load *l, struct need large, int64_t memory)
{
	size_t before = p.n_at_work;

	if (random_below(100) < 70 && fake.n_tasks < FAKE_TASKS - 10)
		fake_add(fake_now_us() + (int64_t)random_below(2) * random_below(2000000));
	if (random_below(100) < 35 && fake.n_tasks < FAKE_TASKS - 10)
		add_small(1);
	turn();
	for (size_t i = before; i < p.n_at_work; i++)
		l->ends_us[p.at_work[i]->id] = clock_mono_us() + 1 + random_below((unsigned)l->longest_us);
	check_in_use(large, memory);
	hand_turn(20 * US_PER_MS);
	for (size_t i = 0; i < p.n_at_work;) {
		if (l->ends_us[p.at_work[i]->id] <= clock_mono_us())
			end_one(i);
		else
			i++;
	}
}

static bool
all_over(const struct load *l)
{
	for (size_t i = 0; i < l->n_large; i++) {
		if (l->large[i]->status != FAKE_GONE)
			return false;
	}
	return true;
}

static void
no_slot_is_used_twice_and_the_large_ones_start_while_small_ones_keep_coming(void **unused)
{
	int64_t worst_us = 0;

	for (int h = 0; h < HISTORIES; h++) {
		int64_t memory = random_below(2) * 8 * GB, began, each_us;
		struct need large = {
		    .slots = 1 + random_below(WORKERS), .memory = memory * (1 + random_below(8)) / 8};
		struct load l = {.longest_us = 1000 + random_below(500000), .n_large = 1 + random_below(4)};

		large.slots += large.slots == 1 && memory == 0;
		begin(large, memory);
		for (int i = 0; i < 20; i++)
			step(&l, large, memory);
		for (size_t i = 0; i < l.n_large; i++)
			l.large[i] = add_large(-(int64_t)random_below(100));
		began = clock_mono_us();
		each_us = LARGE_LATE_US + 2 * l.longest_us + US_PER_S;
		while (!all_over(&l)) {
			step(&l, large, memory);
			assert_true(clock_mono_us() - began < (int64_t)l.n_large * each_us);
		}
		worst_us = clock_mono_us() - began > worst_us ? clock_mono_us() - began : worst_us;
		parts_end(&p);
	}
	printf("# %d histories, the last large one was over %lld ms after the first was due\n", HISTORIES,
	    (long long)(worst_us / US_PER_MS));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_first_by_order_waits_for_its_slots_and_nothing_behind_it_takes_them),
	    cmocka_unit_test(limits_of_memory_that_do_not_fit_together_wait_and_hold_up_nothing_else),
	    cmocka_unit_test(one_that_waits_long_goes_back_and_the_node_rests),
	    cmocka_unit_test(one_that_is_larger_than_its_crew_has_become_goes_back_and_holds_up_nothing),
	    cmocka_unit_test(it_is_claimed_when_it_is_due_and_fits_and_the_boss_begins_it),
	    cmocka_unit_test(one_that_does_not_fit_is_claimed_when_it_is_late_and_then_nothing_else_is),
	    cmocka_unit_test(while_it_waits_the_loader_sleeps_and_wakes_when_there_is_more_room),
	    cmocka_unit_test(a_hundred_of_them_take_no_look_from_those_that_fit),
	    cmocka_unit_test(no_slot_is_used_twice_and_the_large_ones_start_while_small_ones_keep_coming),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
