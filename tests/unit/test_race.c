/*
 * The parts of a node as the threads that they are, on the fake store and the machine's clocks: what
 * ThreadSanitizer watches, and what the assertions of ownership hold against.  Answers are lost at random,
 * people drain, cancel and ring, the node is fenced; in the end every task has been done, each end once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "node/runs/worker.h"
#include "parts.h"
#include "random.h"

#define TASKS      FAKE_TASKS
#define PATIENT_US (60 * US_PER_S) /* a test that reaches it has failed */

static struct parts p;
static struct workers *workers;
static int64_t other_id; /* of a node that does nothing */

static void
lock(void)
{
	assert_int_equal(pthread_mutex_lock(&fake.lock), 0);
}

static void
unlock(void)
{
	assert_int_equal(pthread_mutex_unlock(&fake.lock), 0);
}

static void
begin(void)
{
	struct err err;

	fake_start(random_below(1u << 30) + 1);
	fake.kind = "noop";
	other_id = fake_node("other")->id;
	parts_make(&p);
	p.set.heartbeat_us = 20 * US_PER_MS;
	p.set.fence_after_us = 200 * US_PER_MS;
	p.set.dead_after_us = 3 * US_PER_S;
	p.set.poll_us = 20 * US_PER_MS;
	p.set.lookahead_us = 200 * US_PER_MS;
	p.set.steal_after_us = 100 * US_PER_MS;
	p.set.loaders = 2;
	assert_int_equal(exec_set_create("noop", NULL, &p.n.execs, &err), RC_OK);
	parts_heartbeat(&p);
	parts_loaders(&p);
	finisher_start(p.finisher);
	workers = workers_start(&p.n);
	starter_start(p.starter);
	boss_start(p.n.boss);
	recover_start(p.n.recover);
	heartbeat_start(p.heartbeat, loaders_wake, p.loaders);
	loaders_start(p.loaders);
}

/* As node.c does. */
static void
end(void)
{
	struct node *n = &p.n;

	atomic_store(&n->leaving, true);
	heartbeat_ring(p.heartbeat);
	loaders_stop(p.loaders);
	boss_drain(n->boss);
	assert_true(boss_wait_empty(n->boss, clock_mono_us() + PATIENT_US));
	heartbeat_stop(&p.heartbeat, true);
	recover_stop(&n->recover);
	mailbox_close(n->start_queue);
	starter_stop(p.starter);
	mailbox_close(n->run_queue);
	workers_stop(&workers);
	mailbox_close(n->finish_queue);
	finisher_stop(p.finisher);
	finisher_destroy(&p.finisher);
	boss_stop(n->boss);
	parts_end(&p);
}

static void
insert(void)
{
	lock();
	for (int i = 0; i < 20 && fake.n_tasks < TASKS; i++)
		fake_add(fake_now_us() + random_below(300000));
	unlock();
	loaders_wake(p.loaders);
}

static void
disturb(void)
{
	lock();
	int64_t id = 1 + random_below((unsigned)fake.n_tasks), version = fake_task(id)->version;

	switch (random_below(12)) {
	case 0: fake_task(id)->locked = !fake_task(id)->locked; break;
	case 1: fake.wishes.drain = !fake.wishes.drain; break;
	case 2: fake_node(PART_NAME)->up = false; break; /* declared dead */
	case 3: fake.down = !fake.down; break;
	default: break;
	}
	unlock();
	boss_cancel(p.n.boss, id, version);
	heartbeat_ring(p.heartbeat);
	heartbeat_hear(p.heartbeat, other_id, random_below(2) ? MEMBER_BUSY : MEMBER_LEAVES);
	heartbeat_hear_joins(p.heartbeat);
	loaders_ring_lanes(p.loaders);
}

/* Until all is done, or for so long. */
static bool
done_within(int64_t us)
{
	int64_t until = clock_mono_us() + us;
	struct gate gate;
	bool done = false;

	gate_init(&gate);
	while (!done && clock_mono_us() < until) {
		gate_wait(&gate, clock_mono_us() + 2 * US_PER_MS);
		lock();
		done = fake_count(FAKE_GONE) == TASKS;
		unlock();
	}
	gate_fini(&gate);
	return done;
}

static void
all_well(void)
{
	lock();
	fake.trouble = 0;
	fake.down = false;
	fake.wishes = (struct node_wishes){0};
	for (size_t i = 0; i < fake.n_tasks; i++)
		fake.task[i].locked = false;
	unlock();
}

static void
threads_lose_nothing_and_do_nothing_twice(void **unused)
{
	begin();
	lock();
	fake.trouble = 50;
	unlock();
	while (fake.n_tasks < TASKS) { /* only this thread adds */
		insert();
		disturb();
		(void)done_within(20 * US_PER_MS);
	}
	all_well();
	assert_true(done_within(PATIENT_US));
	end();
	for (size_t i = 0; i < fake.n_history; i++)
		assert_int_equal(fake_ends_of(fake.history[i].id, fake.history[i].version), 1);
	printf("# %zu ends of %d tasks\n", fake.n_history, TASKS);
}

static void
a_node_that_stops_amid_everything_hands_back_what_it_has(void **unused)
{
	for (int i = 0; i < 5; i++) {
		begin();
		for (int k = 0; k < 5; k++)
			insert();
		(void)done_within(random_below(100000));
		end();
		assert_int_equal(fake_count(FAKE_CLAIMED), 0);
		assert_int_equal(fake_count(FAKE_RUNNING), 0);
		assert_false(fake_node(PART_NAME)->up); /* it said goodbye */
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(threads_lose_nothing_and_do_nothing_twice),
	    cmocka_unit_test(a_node_that_stops_amid_everything_hands_back_what_it_has),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
