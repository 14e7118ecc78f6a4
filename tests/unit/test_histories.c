/*
 * Whole nodes in random histories, in one thread, as a seed decides: all parts of one node on the fake store,
 * and beside it another node that claims, runs, falls silent and comes back.  Answers are lost, the server
 * goes away, the clocks of server and machine jump, rows are locked and edited.  What pgrab promises is
 * looked at where it would be broken.
 */
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

#define HISTORIES 400
#define TASKS     40
#define STEPS     250

static struct parts p;
static unsigned begun[FAKE_TASKS + 1]; /* executions of each task, on both nodes */
static unsigned executing[FAKE_TASKS + 1];
static size_t n_executions, n_fences, n_outages;

/* The other node: it acts only while it has a lease, as this one does. */
static struct {
	struct fake_node *row;
	int64_t lease_us, silent_until_us;
	struct {
		int64_t id, version, incarnation, ends_us;
	} run[4];
} rival;

static void
execution_begins(int64_t id)
{
	const struct fake_task *t = fake_task(id);

	assert_int_equal(executing[id]++, 0); /* never two at once */
	begun[id]++;
	n_executions++;
	assert_true(!t->once || begun[id] == 1);
}

static void
rival_ends(size_t i, bool written)
{
	int64_t id = rival.run[i].id;
	struct fake_task *t = fake_task(id);

	executing[id]--;
	rival.run[i].id = 0;
	if (written && t->version == rival.run[i].version && t->incarnation == rival.run[i].incarnation) {
		t->status = FAKE_GONE;
		t->incarnation = 0;
		t->version++;
	}
}

static void
rival_claims(size_t i)
{
	struct fake_task *t = &fake.task[random_below((unsigned)fake.n_tasks)];

	if (t->status != FAKE_SCHEDULED || t->locked || t->due_us > fake_now_us())
		return;
	t->status = FAKE_RUNNING;
	t->version++;
	t->incarnation = rival.row->incarnation;
	t->held_us = fake_now_us();
	rival.run[i].id = t->id;
	rival.run[i].version = t->version;
	rival.run[i].incarnation = t->incarnation;
	rival.run[i].ends_us = clock_mono_us() + random_below(3000000);
	execution_begins(t->id);
}

static void
rival_turn(void)
{
	int64_t now = clock_mono_us();
	bool silent = now < rival.silent_until_us;
	bool lease = now < rival.lease_us;

	for (size_t i = 0; i < 4; i++) {
		if (rival.run[i].id != 0 && (!lease || (!silent && now >= rival.run[i].ends_us)))
			rival_ends(i, lease);
		else if (rival.run[i].id == 0 && lease && !silent && random_below(4) == 0)
			rival_claims(i);
	}
	if (silent)
		return;
	if (!rival.row->up || !lease) { /* it comes back as another */
		for (size_t i = 0; i < 4; i++) {
			if (rival.run[i].id != 0)
				rival_ends(i, false);
		}
		rival.row->incarnation = 1000 + (int64_t)random_below(1u << 30);
		rival.row->up = true;
	}
	rival.row->beat++;
	rival.lease_us = now + p.set.fence_after_us;
	if (random_below(100) == 0) { /* it may be the first, and then the orphans are its duty */
		struct lost *lost;
		struct recovered got;
		struct err err;
		int64_t kept;
		size_t n;

		(void)!store_fake.lost(NULL, 0, &lost, &n, &kept, &err);
		for (size_t i = 0; i < n; i++) {
			const struct recovery what = {
			    .by = "rival", .incarnation = lost[i].incarnation, .only = &lost[i], .n = 1};

			(void)!store_fake.recover(NULL, &what, &got, &err);
		}
		free(lost);
	}
}

/* Workers of this node. */
static void
workers_turn(void)
{
	size_t had = p.n_at_work;

	parts_begin_work(&p);
	for (size_t i = had; i < p.n_at_work; i++) {
		struct run *r = p.at_work[i];

		assert_true(r->due_mono_us <= clock_mono_us() + LEAD_US);
		assert_true(lease_holds(&p.n.lease, clock_boot_us()));
		execution_begins(r->id);
	}
	for (size_t i = p.n_at_work; i-- > 0;) {
		struct run *r = p.at_work[i];
		bool stopped = atomic_load(&r->stop.why) != PGRAB_STOP_NONE ||
			       !node_may_act(&p.n, r->incarnation, clock_boot_us());

		/* What is told to stop does so, but not at once. */
		int64_t stop_us = atomic_load(&r->stop.at_us);
		bool fenced = atomic_load(&r->stop.why) == PGRAB_STOP_FENCED;
		int64_t over = p.n.boss->lease_over_us + 3500 * US_PER_MS;
		bool late = (stop_us != 0 && clock_mono_us() > stop_us + 3500 * US_PER_MS) ||
			    (fenced && clock_boot_us() > over);

		if (!late && random_below(stopped ? 40 : 6) > 0)
			continue;
		executing[r->id]--;
		parts_end_work(&p, i,
		    stopped                ? OUTCOME_LOST
		    : random_below(5) == 0 ? OUTCOME_FAILED
					   : OUTCOME_SUCCEEDED);
	}
}

/* Everybody but the heartbeat, some of them, in the order of a machine under load. */
static void
everybody(void *ctx)
{
	rival_turn();
	for (int i = 0; i < 6; i++) {
		switch (random_below(6)) {
		case 0: parts_boss(&p); break;
		case 1: parts_starter(&p); break;
		case 2: workers_turn(); break;
		case 3: parts_finisher(&p); break;
		case 4: parts_loader(&p); break;
		default:
			if (random_below(8) == 0)
				parts_recover(&p);
		}
	}
	if (atomic_load(&p.n.incarnation) == 0)
		workers_turn();
	parts_boss(&p); /* so that whoever waits for it gets an answer */
}

/* What everybody must be able to take. */
static void
disturb(void)
{
	struct fake_task *t = &fake.task[random_below((unsigned)fake.n_tasks)];

	switch (random_below(40)) {
	case 0: t->locked = !t->locked; break;
	case 1:
		if (t->status == FAKE_SCHEDULED) /* edited */
			t->version++;
		break;
	case 2:
		fake.down = !fake.down;
		n_outages += fake.down;
		break;
	case 3: hand.boot_ahead_us += random_below(3000000); break;
	case 4: fake.db_ahead_us += (int64_t)random_below(2000000) - 1000000; break;
	case 5: rival.silent_until_us = clock_mono_us() + random_below(25000000); break;
	case 6: fake.wishes.drain = !fake.wishes.drain; break;
	case 7:
		fake.wishes.n_stops = 1;
		fake.wishes.stop[0].id = t->id;
		fake.wishes.stop[0].version = t->version;
		break;
	case 8: loaders_wake(p.loaders); break;
	default: break;
	}
}

static void
step(void)
{
	disturb();
	everybody(NULL);
	if (p.heartbeat->next_us <= clock_mono_us()) {
		int64_t before = atomic_load(&p.n.incarnation);

		assert_true(HAND_ROUND(0, heartbeat_round(p.heartbeat)));
		hand.round = false;
		n_fences += atomic_load(&p.n.incarnation) != before;
	}
	hand_turn(random_below(120000));
}

/* A server that has come back, so that a fence ends. */
static void
a_call_is_made(enum fake_call what)
{
	if (fake.down && random_below(20) == 0)
		fake.down = false;
}

static void
begin(void)
{
	hand_start();
	fake_start(random_below(1u << 30) + 1);
	memset(begun, 0, sizeof begun);
	memset(executing, 0, sizeof executing);
	memset(&rival, 0, sizeof rival);
	if (random_below(2) == 0)
		fake_node(PART_NAME)->up = false; /* this one was here first */
	rival.row = fake_node("rival");
	rival.row->incarnation = 999;
	rival.lease_us = clock_mono_us() + 5 * US_PER_S;
	parts_make(&p);
	parts_heartbeat(&p);
	heartbeat_publish(p.heartbeat);
	parts_loaders(&p);
	p.heartbeat->changed = loaders_wake;
	p.heartbeat->changed_ctx = p.loaders;
	for (int i = 0; i < TASKS; i++) {
		struct fake_task *t = fake_add(fake_now_us() + (int64_t)random_below(20000000) - 1000000);

		t->once = random_below(4) == 0;
	}
	hand.others = everybody;
	hand.step_us = 50 * US_PER_MS;
	fake.before = a_call_is_made;
	fake.trouble = random_below(250);
}

static void
all_well(void)
{
	fake.trouble = 0;
	fake.down = false;
	fake.wishes = (struct node_wishes){0};
	for (size_t i = 0; i < fake.n_tasks; i++)
		fake.task[i].locked = false;
}

static void
turns(int n)
{
	for (int i = 0; i < n; i++) {
		everybody(NULL);
		if (p.heartbeat->next_us <= clock_mono_us()) {
			(void)HAND_ROUND(0, heartbeat_round(p.heartbeat));
			hand.round = false;
		}
		hand_turn(50 * US_PER_MS);
	}
}

/* What the database says is this node's is in hand: it has lost track of nothing, whatever became of the
 * answers. */
static void
check_hand(void)
{
	for (size_t i = 0; i < fake.n_tasks; i++) {
		const struct fake_task *t = &fake.task[i];
		const struct run *r;
		bool in_hand = t->incarnation != atomic_load(&p.n.incarnation);

		TAILQ_FOREACH (r, &p.n.boss->in_hand, place.in_hand)
			in_hand = in_hand || (r->id == t->id && r->version == t->version);
		assert_true(in_hand);
	}
}

/* When all is well again every task ends. */
static void
wind_up(void)
{
	all_well();
	turns(100); /* so long, at most, something of an old trouble waits for its next try */
	check_hand();
	for (int i = 0; i < 4000; i++) {
		turns(1);
		if (fake_count(FAKE_GONE) + fake_count(FAKE_PARKED) == fake.n_tasks &&
		    p.n.boss->n_in_hand == 0)
			return;
	}
	for (size_t i = 0; i < fake.n_tasks; i++) {
		const struct fake_task *t = &fake.task[i];

		if (t->status < FAKE_GONE)
			printf("# task %" PRId64 ": status %d, held by %" PRId64 ", due in %" PRId64 " us\n",
			    t->id, (int)t->status, t->incarnation, t->due_us - fake_now_us());
	}
	fail_msg("not all tasks have ended; here is %" PRId64 ", in hand %zu, may claim %d, draining %d",
	    atomic_load(&p.n.incarnation), p.n.boss->n_in_hand, health_may_claim(&p.n), p.n.boss->draining);
}

static void
check_ends(void)
{
	for (size_t i = 0; i < fake.n_tasks; i++) {
		const struct fake_task *t = &fake.task[i];

		assert_true(t->status == FAKE_GONE || t->once); /* only those are parked */
		assert_true(t->status == FAKE_PARKED || begun[t->id] > 0);
	}
	for (size_t i = 0; i < fake.n_history; i++) /* each end counts once */
		assert_int_equal(fake_ends_of(fake.history[i].id, fake.history[i].version), 1);
}

static void
in_random_histories_the_promises_hold(void **unused)
{
	for (int h = 0; h < HISTORIES; h++) {
		begin();
		for (int i = 0; i < STEPS; i++)
			step();
		wind_up();
		check_ends();
		parts_end(&p);
	}
	printf("# %d histories of two nodes: %zu executions, %zu fences, %zu outages\n", HISTORIES,
	    n_executions, n_fences, n_outages);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(in_random_histories_the_promises_hold),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
