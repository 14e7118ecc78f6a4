/*
 * The arithmetic of the strategy adaptive: what it says of a node that is slow, fails, or is short of
 * something, and what becomes of the shares.
 */
#include "strategy/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "clusters.h"

#define TRICKLE 6

/* Nodes that all run one kind. */
struct world {
	struct picture p;
	struct pgrab_work work[NODES_MAX];
	struct strategy *s;
	char why[128];
};

static void
world_make(struct world *w, size_t n)
{
	picture_random(&w->p, n);
	w->s = open_strategy("adaptive", "");
	for (size_t i = 0; i < n; i++) {
		w->work[i] = (struct pgrab_work){
		    .kind = "shell", .runs = 16, .succeeded = 16, .timed = 256, .typical_us = 1000};
		w->p.node[i].work = &w->work[i];
		w->p.node[i].n_work = 1;
		w->p.node[i].weight = 1;
		w->p.node[i].slots = 8;
		w->p.node[i].fitness = 100;
		w->p.node[i].cpu_free = w->p.node[i].memory_free = 50;
	}
}

static int64_t
fitness_of(struct world *w, size_t i)
{
	w->p.c.self = i;
	return strategy_fitness(w->s, &w->p.c, w->why, sizeof w->why);
}

static size_t
shards_of(struct world *w, size_t rank)
{
	struct pgrab_shard_set set;

	strategy_shards(w->s, &w->p.c, rank, &set);
	return set_count(&set);
}

static void
equal_nodes_are_ordinary_and_equal(void **state)
{
	static struct world w;

	world_make(&w, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(fitness_of(&w, i), 100);
		assert_int_equal(shards_of(&w, i), 256);
	}
	strategy_close(&w.s);
}

static void
shares_are_the_product_of_weight_slots_and_fitness(void **state)
{
	static struct world w;

	world_make(&w, 3);
	w.p.node[0].weight = 2;
	w.p.node[1].slots = 16;
	w.p.node[2].fitness = 200;
	for (size_t i = 0; i < 3; i++)
		assert_in_range(shards_of(&w, i), 341, 342);
	w.p.node[0].weight = 0;
	assert_int_equal(shards_of(&w, 0), 0);
	strategy_close(&w.s);
}

/* Whatever a sick node says means the same: it counts down. */
static int64_t
meant(int64_t fitness)
{
	return fitness <= TRICKLE ? TRICKLE : fitness;
}

/* What all get together is all there is, and who is fitter gets no less. */
static void
a_fitter_node_never_gets_less(void **state)
{
	static struct world w;

	for (unsigned turn = 0; turn < 200; turn++) {
		size_t n = 2 + (size_t)chance(12), sum = 0, one = (size_t)chance(n), before;

		world_make(&w, n);
		for (size_t i = 0; i < n; i++)
			w.p.node[i].fitness = 1 + (int64_t)chance(400);
		for (size_t i = 0; i < n; i++) {
			sum += shards_of(&w, i);
			assert_in_range(shards_of(&w, i), 1, PGRAB_SHARDS);
			for (size_t k = 0; k < n; k++)
				assert_true(meant(w.p.node[i].fitness) <= meant(w.p.node[k].fitness) ||
					    shards_of(&w, i) >= shards_of(&w, k));
		}
		assert_int_equal(sum, PGRAB_SHARDS);
		before = shards_of(&w, one);
		w.p.node[one].fitness = meant(w.p.node[one].fitness) + 1 + (int64_t)chance(100);
		assert_true(shards_of(&w, one) >= before);
		strategy_close(&w.s);
	}
}

static void
every_node_keeps_a_shard_among_many(void **state)
{
	static struct world w;

	world_make(&w, NODES_MAX);
	w.p.node[7].fitness = TRICKLE;
	assert_int_equal(shards_of(&w, 7), 1);
	strategy_close(&w.s);
}

static void
speed_gives_its_share_whatever_the_unit(void **state)
{
	static const double slow[] = {1.5, 2, 3};
	static const double units[] = {1, 1000, 1e9};
	static struct world w;

	for (size_t i = 0; i < 3; i++) {
		for (size_t k = 0; k < 3; k++) {
			double ratio;

			world_make(&w, 2);
			w.work[0].typical_us = units[k];
			w.work[1].typical_us = slow[i] * units[k];
			w.p.node[0].fitness = fitness_of(&w, 0);
			w.p.node[1].fitness = fitness_of(&w, 1);
			ratio = (double)shards_of(&w, 0) / (double)shards_of(&w, 1);
			if (ratio < slow[i] / 1.5 || ratio > slow[i] * 1.5)
				fail_msg("%g times as slow: %g times the shards", slow[i], ratio);
			strategy_close(&w.s);
		}
	}
}

/* The more of its runs fail, the less it gets; below a half it is sick at once. */
static void
failures_cost_in_proportion_and_then_all_but_a_trickle(void **state)
{
	static struct world w;
	int64_t last = PGRAB_FITNESS_MAX;

	world_make(&w, 3);
	for (int succeeded = 16; succeeded >= 0; succeeded--) {
		w.work[0].succeeded = succeeded;
		w.p.node[0].fitness = 100;
		assert_true(fitness_of(&w, 0) <= last);
		last = fitness_of(&w, 0);
		if (succeeded >= 7)
			assert_in_range(last, 50, 100);
		if (succeeded <= 5)
			assert_int_equal(last, TRICKLE);
	}
	assert_int_equal(fitness_of(&w, 1), 100);
	w.p.node[0].fitness = TRICKLE;
	assert_in_range(shards_of(&w, 0), 1, PGRAB_SHARDS / 3 / 8);
	strategy_close(&w.s);
}

static void
what_fails_everywhere_costs_nobody(void **state)
{
	static struct world w;

	world_make(&w, 3);
	for (size_t i = 0; i < 3; i++)
		w.work[i].succeeded = 0;
	assert_int_equal(fitness_of(&w, 0), 100);
	for (size_t i = 0; i < 3; i++)
		w.work[i].succeeded = 8;
	assert_int_equal(fitness_of(&w, 0), 100);
	strategy_close(&w.s);
}

static void
a_kind_that_nobody_else_runs_is_not_compared(void **state)
{
	static struct world w;

	world_make(&w, 2);
	w.work[0] = (struct pgrab_work){.kind = "exec", .runs = 16, .typical_us = 9e9, .timed = 64};
	assert_int_equal(fitness_of(&w, 0), 100);
	strategy_close(&w.s);
}

static void
a_sick_node_stays_so_until_it_is_clearly_well_and_steals_nothing(void **state)
{
	static struct world w;

	world_make(&w, 2);
	w.p.c.self = 0;
	assert_true(strategy_may_steal(w.s, &w.p.c));
	w.p.node[0].fitness = TRICKLE;
	assert_false(strategy_may_steal(w.s, &w.p.c));
	w.work[0].succeeded = 8;                          /* not sick by itself */
	assert_int_equal(fitness_of(&w, 0), TRICKLE - 1); /* the same trickle of other shards */
	w.p.node[0].fitness = 1;
	assert_int_equal(fitness_of(&w, 0), TRICKLE);
	w.p.node[0].fitness = 100;
	assert_true(fitness_of(&w, 0) > TRICKLE);
	w.p.node[0].fitness = TRICKLE;
	w.work[0].succeeded = 14;
	assert_true(fitness_of(&w, 0) > 3 * TRICKLE);
	strategy_close(&w.s);
}

static void
no_evidence_leaves_a_node_as_it_is(void **state)
{
	static struct world w;

	world_make(&w, 3);
	for (size_t i = 0; i < 3; i++)
		w.p.node[i].n_work = 0;
	assert_int_equal(fitness_of(&w, 0), 100);
	w.p.node[0].n_work = 1;
	/* One failure, and nobody to compare with. */
	w.work[0] = (struct pgrab_work){.kind = "shell", .runs = 1};
	assert_int_equal(fitness_of(&w, 0), 100);
	w.p.node[1].n_work = 1;
	assert_in_range(fitness_of(&w, 0), 70, 100);
	strategy_close(&w.s);
}

/* Within a quarter of what it last said it says the same; and what it says it would say again. */
static void
it_holds_on_to_what_it_said(void **state)
{
	static struct world w;

	world_make(&w, 2);
	for (unsigned turn = 0; turn < 2000; turn++) {
		int64_t before = fitness_of(&w, 0), now;

		w.p.node[0].fitness = before;
		assert_int_equal(fitness_of(&w, 0), before);
		w.work[0].typical_us *= 0.9 + 0.2 * (double)chance(1000) / 1000;
		now = fitness_of(&w, 0);
		if (now != before)
			assert_true(now * 100 >= before * 115 || before * 100 >= now * 115);
		w.p.node[0].fitness = now;
	}
	strategy_close(&w.s);
	world_make(&w, 2);
	w.work[0].typical_us = 1100;
	assert_int_equal(fitness_of(&w, 0), 100);
	strategy_close(&w.s);
}

static void
a_machine_without_memory_or_cpu_gets_less(void **state)
{
	static struct world w;

	world_make(&w, 2);
	w.p.node[0].memory_free = 1;
	assert_in_range(fitness_of(&w, 0), 25, 42);
	w.p.node[0].memory_free = -1;
	w.p.node[0].cpu_free = 0;
	assert_in_range(fitness_of(&w, 0), 42, 59);
	w.p.node[1].cpu_free = 3; /* all are at their limit */
	assert_int_equal(fitness_of(&w, 0), 100);
	w.p.node[1].cpu_free = -1;
	assert_int_equal(fitness_of(&w, 0), 100);
	strategy_close(&w.s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(equal_nodes_are_ordinary_and_equal),
	    cmocka_unit_test(shares_are_the_product_of_weight_slots_and_fitness),
	    cmocka_unit_test(a_fitter_node_never_gets_less),
	    cmocka_unit_test(every_node_keeps_a_shard_among_many),
	    cmocka_unit_test(speed_gives_its_share_whatever_the_unit),
	    cmocka_unit_test(failures_cost_in_proportion_and_then_all_but_a_trickle),
	    cmocka_unit_test(what_fails_everywhere_costs_nobody),
	    cmocka_unit_test(a_kind_that_nobody_else_runs_is_not_compared),
	    cmocka_unit_test(a_sick_node_stays_so_until_it_is_clearly_well_and_steals_nothing),
	    cmocka_unit_test(no_evidence_leaves_a_node_as_it_is),
	    cmocka_unit_test(it_holds_on_to_what_it_said),
	    cmocka_unit_test(a_machine_without_memory_or_cpu_gets_less),
	};

	chance_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
