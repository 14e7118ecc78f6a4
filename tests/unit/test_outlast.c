/*
 * Runs outlast a restart of the server, and nobody runs anything twice: the rules of ADR 29, first one by
 * one, then all of them in random histories.  There the heartbeat of this node is asked on the fake store,
 * and two other nodes watch its row: one with sessions of its own, one behind a pooler.  The server restarts,
 * is shut down slowly, is silent for some; answers are late or lost; whoever watches may stand still between
 * what it saw and what it does about it.
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

#define HISTORIES 700
#define STEPS     400
#define GRACE_US  (2 * US_PER_S)

/* The server takes sessions; lets those that it has go on; is not there. */
enum phase { PHASE_OPEN, PHASE_CLOSING, PHASE_AWAY };

struct watcher {
	struct members seen;
	int64_t next_us, life; /* looks then; the life that its session is of, 0: none */
	bool pooled, cut;
	struct member suspect; /* incarnation 0: nobody */
	int64_t declares_us;
};

static struct parts p;
static int64_t fenced_us; /* when the node was first seen to act no more; 0: never */
static int64_t back_us;   /* the server answers again from then on */
static struct {
	bool random; /* a history; else the test says what happens */
	enum phase phase;
	int64_t phase_until_us;
	bool sees_exit;        /* the node's socket is the server's own: it sees it exit */
	bool word;             /* or it has the operator's, and answers prove it */
	bool loses;            /* when it restarts it may lack the last beat; it says so */
	bool cut;              /* nothing gets from the node to the server, or back */
	int64_t life;          /* that the node's session is of; 0: none */
	int64_t frozen_us;     /* the node stands still until then */
	int64_t acts, acts_us; /* the incarnation that was last seen to act, and when */
	struct watcher watcher[2];
} w;
static unsigned n_restarts, n_outlasted, n_fences, n_deaths;

static int64_t
incarnation(void)
{
	return atomic_load(&p.n.incarnation);
}

static struct fake_node *
row(void)
{
	return fake_node(PART_NAME);
}

/* --- the world of a history -------------------------------------------------------------------------- */

static void
next_phase(void)
{
	if (w.phase == PHASE_OPEN) {
		w.phase = random_below(2) == 0 ? PHASE_CLOSING : PHASE_AWAY;
		n_restarts++;
	} else if (w.phase == PHASE_CLOSING) {
		w.phase = PHASE_AWAY;
	} else {
		w.phase = PHASE_OPEN;
		fake.life++;
		if (w.loses && row()->beat > 2)
			row()->beat -= random_below(2); /* a standby takes over that lacks it */
	}
	w.phase_until_us = clock_mono_us() + random_below(w.phase == PHASE_OPEN ? 60000000 : 18000000);
	fake.over = fake.over || (w.sees_exit && w.phase == PHASE_AWAY && fake.can_tell);
}

static void
look_for_actors(void)
{
	if (node_may_act(&p.n, incarnation(), clock_boot_us())) {
		w.acts = incarnation();
		w.acts_us = clock_mono_us();
	}
}

static bool
has_session(const struct watcher *o)
{
	return !o->cut && w.phase != PHASE_AWAY && o->life == fake.life;
}

/* It is as old as this moment, unless it is a pooler's. */
static bool
has_new_session(struct watcher *o)
{
	if (!o->cut && w.phase == PHASE_OPEN)
		o->life = fake.life;
	return has_session(o) && (w.phase == PHASE_OPEN || o->pooled);
}

static void
declare(struct watcher *o)
{
	if (!has_new_session(o))
		return;
	if (row()->up && row()->incarnation == o->suspect.incarnation && row()->beat == o->suspect.beat &&
	    o->suspect.life == fake.life) {
		look_for_actors();
		if (w.acts == row()->incarnation)
			assert_true(clock_mono_us() - w.acts_us >= GRACE_US);
		row()->up = false;
		row()->beat++;
		n_deaths++;
	}
	o->suspect.incarnation = 0;
}

static void
watch(struct watcher *o)
{
	const struct fake_node *n = row();
	struct member_row one = {.id = n->id,
	    .name = n->name,
	    .incarnation = n->incarnation,
	    .beat = n->beat,
	    .labels = "",
	    .heartbeat_us = n->heartbeat_us,
	    .dead_after_us = n->dead_after_us,
	    .server_life = n->life};

	if (random_below(o->cut ? 60 : 600) == 0)
		o->cut = !o->cut;
	if (o->suspect.incarnation != 0 && clock_mono_us() >= o->declares_us)
		declare(o);
	if (clock_mono_us() < o->next_us)
		return;
	o->next_us = clock_mono_us() + random_below(2500000);
	if (!has_session(o) && !has_new_session(o))
		return;
	o->seen.pooled = o->pooled;
	members_observe(&o->seen, &one, n->up ? 1 : 0, fake.life, clock_mono_us());
	if (o->seen.count == 0 || !member_dead(&o->seen.item[0]) || o->suspect.incarnation != 0)
		return;
	o->suspect = o->seen.item[0];
	o->declares_us = clock_mono_us() + (random_below(4) == 0 ? random_below(60000000) : 0);
}

static void
world_turn(void)
{
	if (clock_mono_us() >= w.phase_until_us)
		next_phase();
	if (random_below(w.cut ? 60 : 600) == 0)
		w.cut = !w.cut;
	if (w.cut || w.phase == PHASE_AWAY)
		w.life = 0;
	if (!w.loses && random_below(100) == 0)
		fake.may_lose = !fake.may_lose;
	look_for_actors();
	for (size_t i = 0; i < 2; i++)
		watch(&w.watcher[i]);
	look_for_actors();
}

/* The node wants a session: it gets one, or an answer, or none. */
static void
connects(void)
{
	if (w.life == fake.life || w.cut)
		return;
	if (w.phase == PHASE_OPEN) {
		w.life = fake.life;
		fake.over = false;
		fake.can_tell = random_below(8) > 0; /* another way to it */
		fake.generation++;
	} else {
		fake.over = fake.over || (fake.can_tell && (w.word || w.phase == PHASE_CLOSING));
	}
}

static void
pass_time(void)
{
	int64_t until = clock_mono_us() + random_below(random_below(40) == 0 ? 8000000 : 300000);

	while (clock_mono_us() < until) {
		hand_turn(100 * US_PER_MS);
		world_turn();
	}
}

static void
before_call(enum fake_call what)
{
	if (!w.random)
		return;
	pass_time();
	if (what == FAKE_CONNECT)
		connects();
	fake.down = w.life != fake.life || w.cut;
}

static void
after_call(enum fake_call what)
{
	if (w.random)
		pass_time();
}

/* While the heartbeat waits. */
static void
others(void *ctx)
{
	if (fenced_us == 0 && incarnation() == 0)
		fenced_us = clock_mono_us();
	if (w.random)
		world_turn();
	else if (fake.down && clock_mono_us() >= back_us)
		fake.down = false;
	parts_boss(&p);
	parts_starter(&p);
	parts_begin_work(&p);
	for (size_t i = p.n_at_work; i-- > 0;) {
		if (atomic_load(&p.at_work[i]->stop.why) != PGRAB_STOP_NONE)
			parts_end_work(&p, i, OUTCOME_LOST);
	}
	parts_finisher(&p);
	parts_boss(&p);
}

static void
begin(void)
{
	hand_start();
	fake_start(random_below(1u << 30) + 1);
	memset(&w, 0, sizeof w);
	parts_make(&p);
	fake.can_tell = true;
	parts_heartbeat(&p);
	hand.others = others;
	fenced_us = 0;
	back_us = CLOCK_NEVER;
}

/* --- one by one ---------------------------------------------------------------------------------------- */

static void
beat(void)
{
	assert_true(HAND_ROUND(CLOCK_NEVER, heartbeat_round(p.heartbeat)));
	hand.round = false;
}

/* What is left of the lease, with a task at work. */
static int64_t
lease_left(void)
{
	return lease_until(&p.n.lease) - clock_boot_us();
}

static void
runs_outlast_a_restart_of_the_server_by_one_and_a_half_times_dead_after(void **unused)
{
	begin();
	beat();
	beat(); /* the first one asks the server */
	parts_claimed(&p, clock_mono_us(), false);
	others(NULL);
	struct run *r = p.at_work[0];
	int64_t old = incarnation(), sent = lease_until(&p.n.lease) - p.set.fence_after_us;

	fake.down = fake.over = true;
	while (clock_boot_us() < sent + 15 * US_PER_S)
		beat();
	assert_int_equal(incarnation(), old);
	assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_NONE);
	assert_int_equal(lease_until(&p.n.lease), sent + p.set.fence_after_us + 15 * US_PER_S);
	fake.down = fake.over = false;
	fake.life++;
	beat();
	assert_int_equal(incarnation(), old);
	assert_true(lease_left() <= p.set.fence_after_us); /* as after every beat */
	assert_int_equal(row()->life, fake.life);
	parts_end(&p);
}

static void
they_do_not_outlast_more_than_that(void **unused)
{
	begin();
	beat();
	beat(); /* the first one asks the server */
	int64_t sent = lease_until(&p.n.lease) - p.set.fence_after_us;

	fake.down = fake.over = true;
	back_us = clock_mono_us() + 60 * US_PER_S;
	while (fenced_us == 0)
		beat();
	assert_int_equal(fenced_us, sent + 20 * US_PER_S); /* both clocks are the same here */
	parts_end(&p);
}

static void
nothing_is_outlasted_without_a_proof_or_where_a_beat_may_be_lost(void **unused)
{
	for (int what = 0; what < 3; what++) {
		begin();
		fake.can_tell = what != 0;
		beat();
		beat();                    /* the first one asks the server */
		fake.may_lose = what == 1; /* a standby has come that may lack what is written now */
		beat();
		int64_t ends = lease_until(&p.n.lease);

		fake.down = true;
		fake.over = what != 2;
		for (int i = 0; i < 4; i++) {
			heartbeat_outlast(p.heartbeat);
			assert_int_equal(lease_until(&p.n.lease), ends);
			hand_turn(US_PER_S);
		}
		fake.down = false;
		parts_end(&p);
	}
}

static void
a_proof_that_comes_after_the_end_of_the_lease_changes_nothing(void **unused)
{
	begin();
	beat();
	beat(); /* the first one asks the server */
	int64_t ends = lease_until(&p.n.lease);

	hand_turn(ends - clock_boot_us());
	fake.over = true;
	heartbeat_outlast(p.heartbeat);
	assert_int_equal(lease_until(&p.n.lease), ends);
	parts_end(&p);
}

static void
a_beat_whose_answer_is_lost_leaves_no_more_than_fence_after(void **unused)
{
	begin();
	beat();
	beat(); /* the first one asks the server */
	fake.down = fake.over = true;
	beat();
	assert_true(lease_left() > 10 * US_PER_S);
	fake.down = fake.over = false; /* it is back */
	fake.life++;
	fake.next[FAKE_BEAT] = ANSWER_LOST_DONE;
	beat();
	assert_true(lease_left() <= p.set.fence_after_us);
	assert_int_equal(row()->life, fake.life); /* so others wait for dead_after only */
	parts_end(&p);
}

static void
a_beat_that_does_not_outlast_counts_even_if_its_answer_is_lost(void **unused)
{
	begin();
	beat();
	beat();                /* the first one asks the server */
	fake.can_tell = false; /* it was sent another way, so others wait for dead_after only */
	fake.next[FAKE_BEAT] = ANSWER_LOST_DONE;
	beat();
	int64_t ends = lease_until(&p.n.lease);

	assert_int_equal(row()->life, 0);
	fake.can_tell = fake.over = true;
	heartbeat_outlast(p.heartbeat);
	assert_int_equal(lease_until(&p.n.lease), ends);
	parts_end(&p);
}

static void
whoever_declares_a_node_dead_has_a_session_that_is_not_older_than_its_silence(void **unused)
{
	struct member m = {.id = 7, .incarnation = 99, .beat = 3, .life = 1};
	char name[] = "rival";

	m.name = name;

	begin();
	fake_node("rival")->incarnation = 99;
	fake_node("rival")->beat = 3;
	unsigned before = fake.disconnects;

	recover_dead(p.n.recover, &m);
	parts_recover(&p);
	assert_false(fake_node("rival")->up);
	assert_true(fake.disconnects > before);
	assert_true(fake.declared_after == fake.disconnects);
	parts_end(&p);
}

/* --- all of them --------------------------------------------------------------------------------------- */

static void
begin_history(void)
{
	begin();
	fake.may_lose = w.loses = random_below(5) == 0;
	w.sees_exit = random_below(2) == 0;
	w.word = !w.sees_exit;
	w.phase_until_us = clock_mono_us() + random_below(30000000);
	w.life = fake.life;
	w.random = true;
	fake.trouble = random_below(150);
	fake.before = before_call;
	fake.after = after_call;
	hand.step_us = 100 * US_PER_MS;
	for (size_t i = 0; i < 2; i++) {
		struct watcher *o = &w.watcher[i];

		members_init(&o->seen, 5 * US_PER_S);
		o->pooled = i == 1;
		o->life = fake.life;
	}
}

static void
step(void)
{
	int64_t old = incarnation(), ends = lease_until(&p.n.lease);

	others(NULL);
	if (random_below(600) == 0)
		w.frozen_us = clock_mono_us() + random_below(30000000);
	if (clock_mono_us() >= w.frozen_us && p.heartbeat->next_us <= clock_mono_us()) {
		HAND_ROUND(0, heartbeat_round(p.heartbeat));
		hand.round = false;
		n_fences += incarnation() != old;
		n_outlasted += incarnation() == old && lease_until(&p.n.lease) > ends + 10 * US_PER_S;
	}
	hand_turn(random_below(200000));
}

static void
in_random_histories_nobody_is_declared_dead_who_acts(void **unused)
{
	for (int h = 0; h < HISTORIES; h++) {
		begin_history();
		for (int i = 0; i < STEPS; i++)
			step();
		for (size_t i = 0; i < 2; i++)
			members_fini(&w.watcher[i].seen);
		w.random = false;
		fake.before = fake.after = NULL;
		parts_end(&p);
	}
	printf("# %d histories: %u restarts, %u outlasted, %u fences, %u declared dead\n", HISTORIES,
	    n_restarts, n_outlasted, n_fences, n_deaths);
	assert_true(n_outlasted > 50 && n_deaths > 50);
}

static void
whoever_looks_through_a_pooler_waits_for_longer(void **unused)
{
	const int64_t dead_us = 20 * US_PER_S, longer_us = dead_us + lease_outlast_us(dead_us);

	assert_int_equal(lease_dead_us(dead_us, 0, 7, true), dead_us); /* it outlasts nothing */
	assert_int_equal(lease_dead_us(dead_us, 7, 7, false), dead_us);
	assert_int_equal(lease_dead_us(dead_us, 7, 8, false), longer_us);
	assert_int_equal(lease_dead_us(dead_us, 7, 7, true), longer_us);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(runs_outlast_a_restart_of_the_server_by_one_and_a_half_times_dead_after),
	    cmocka_unit_test(they_do_not_outlast_more_than_that),
	    cmocka_unit_test(nothing_is_outlasted_without_a_proof_or_where_a_beat_may_be_lost),
	    cmocka_unit_test(a_proof_that_comes_after_the_end_of_the_lease_changes_nothing),
	    cmocka_unit_test(a_beat_whose_answer_is_lost_leaves_no_more_than_fence_after),
	    cmocka_unit_test(a_beat_that_does_not_outlast_counts_even_if_its_answer_is_lost),
	    cmocka_unit_test(whoever_declares_a_node_dead_has_a_session_that_is_not_older_than_its_silence),
	    cmocka_unit_test(whoever_looks_through_a_pooler_waits_for_longer),
	    cmocka_unit_test(in_random_histories_nobody_is_declared_dead_who_acts),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
