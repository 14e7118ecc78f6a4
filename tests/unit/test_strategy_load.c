/*
 * What strategies decide beyond shards: quota (least_count); and what asking them costs.
 */
#include "strategy/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "clusters.h"

#define SIM_NODES 4

static int64_t
quota_of(struct strategy *s, struct picture *p, size_t rank, int64_t room)
{
	p->c.self = rank;
	return strategy_quota(s, &p->c, room);
}

static double
load_of(const struct pgrab_node *n)
{
	return (double)n->in_hand / (double)n->slots;
}

static void
least_count_quota_is_never_nothing_and_never_more_than_room(void **state)
{
	struct strategy *s = open_strategy("least_count", "");
	static struct picture p;

	for (unsigned turn = 0; turn < 5000; turn++) {
		size_t n = 1 + (size_t)chance(chance(20) == 0 ? NODES_MAX : 8), rank = (size_t)chance(n),
		       least = 0;
		int64_t room = 1 + (int64_t)chance(chance(2) == 0 ? 8 : 5000), q;

		picture_random(&p, n);
		q = quota_of(s, &p, rank, room);
		assert_in_range(q, (room + 3) / 4, room);
		assert_int_equal(quota_of(s, &p, rank, room), q);
		for (size_t i = 1; i < n; i++) {
			if (load_of(&p.node[i]) < load_of(&p.node[least]))
				least = i;
		}
		assert_int_equal(quota_of(s, &p, least, room), room);
		p.node[rank].in_hand += 1 + (int64_t)chance(100);
		assert_in_range(quota_of(s, &p, rank, room), 1, q); /* more in hand, no more at once */
	}
	strategy_close(&s);
}

static void
least_count_pours_into_the_emptiest(void **state)
{
	static const struct {
		int64_t slots[4], in_hand[4], room, quota[4];
	} rows[] = {
	    {{8, 8, 8, 8}, {0, 0, 0, 0}, 8, {8, 8, 8, 8}},
	    {{8, 8, 8, 8}, {100, 100, 100, 100}, 40, {40, 40, 40, 40}},
	    {{8, 8, 8, 8}, {120, 100, 100, 80}, 40, {35, 40, 40, 40}}, /* 40 * 140 / 160 */
	    {{8, 8, 8, 8}, {24, 6, 6, 4}, 10, {5, 10, 10, 10}},        /* the picture in docs/strategies.md */
	    {{8, 8, 8, 8}, {400, 0, 0, 0}, 100, {26, 100, 100, 100}},  /* 100 * 133 / 500 */
	    {{16, 8, 8, 8}, {200, 100, 100, 100}, 80, {80, 80, 80, 80}}, /* twice the slots, the same level */
	    {{8, 8, 8, 8}, {1000000, 1000000, 1000000, 0}, 1, {1, 1, 1, 1}},
	};
	struct strategy *s = open_strategy("least_count", "");
	static struct picture p;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		picture_random(&p, 4);
		for (size_t k = 0; k < 4; k++) {
			p.node[k].slots = rows[i].slots[k];
			p.node[k].in_hand = rows[i].in_hand[k];
		}
		for (size_t k = 0; k < 4; k++)
			assert_int_equal(quota_of(s, &p, k, rows[i].room), rows[i].quota[k]);
	}
	strategy_close(&s);
}

static void
least_count_survives_strange_counts(void **state)
{
	struct strategy *s = open_strategy("least_count", "");
	static struct picture p;

	picture_random(&p, 3);
	p.node[0].slots = 0;
	p.node[0].in_hand = -5;
	p.node[1].slots = INT64_MAX;
	p.node[1].in_hand = INT64_MAX;
	p.node[2].in_hand = INT64_MAX;
	for (size_t rank = 0; rank < 3; rank++) {
		assert_in_range(quota_of(s, &p, rank, 1), 1, 1);
		assert_in_range(quota_of(s, &p, rank, INT64_MAX), 1, INT64_MAX);
	}
	assert_int_equal(quota_of(s, &p, 0, 0), 0);
	assert_int_equal(quota_of(s, &p, 0, -1), 0);
	strategy_close(&s);
}

/* Four nodes that pull from a backlog of their own shards, with counts that are a beat (10 steps) old.  Like
 * the boss a node makes room for what it has just ended and a little more, so that without a quota uneven
 * nodes would stay uneven. */
struct sim {
	struct strategy *s;
	struct picture p;
	struct pgrab_shard_set own[SIM_NODES];
	int64_t backlog[PGRAB_SHARDS];
	int64_t in_hand[SIM_NODES], taken[SIM_NODES];
	int64_t left;
};

static void
sim_start(struct sim *m, const int64_t *in_hand, int64_t tasks)
{
	memset(m, 0, sizeof *m);
	m->s = open_strategy("least_count", "");
	m->left = tasks;
	picture_random(&m->p, SIM_NODES);
	for (size_t i = 0; i < SIM_NODES; i++) {
		m->p.node[i].slots = 8;
		m->p.node[i].in_hand = m->in_hand[i] = in_hand[i];
		strategy_shards(m->s, &m->p.c, i, &m->own[i]);
	}
	for (int64_t t = 0; t < tasks; t++)
		m->backlog[chance(PGRAB_SHARDS)]++;
}

static int64_t
sim_take(struct sim *m, size_t node, int64_t quota)
{
	int64_t took = 0;

	for (unsigned i = 0; i < PGRAB_SHARDS && took < quota; i++) {
		int64_t k = quota - took;

		if (!pgrab_shard_has(&m->own[node], i))
			continue;
		if (k > m->backlog[i])
			k = m->backlog[i];
		m->backlog[i] -= k;
		took += k;
	}
	return took;
}

static void
sim_step(struct sim *m, unsigned step)
{
	for (size_t i = 0; i < SIM_NODES; i++) {
		int64_t ended = m->in_hand[i] < 20 ? m->in_hand[i] : 20;
		int64_t took = sim_take(m, i, quota_of(m->s, &m->p, i, ended + 8));

		m->in_hand[i] += took - ended;
		m->taken[i] += took;
		m->left -= took;
	}
	for (size_t i = 0; i < SIM_NODES && step % 10 == 9; i++)
		m->p.node[i].in_hand = m->in_hand[i];
}

static void
least_count_converges_to_equal_counts_under_load(void **state)
{
	static const int64_t uneven[SIM_NODES] = {480, 300, 0, 10};
	struct sim *m = malloc(sizeof *m);
	int64_t sum = 0, even_by[SIM_NODES];

	sim_start(m, uneven, 50000);
	for (unsigned step = 0; step < 200; step++)
		sim_step(m, step);
	assert_true(m->left > 0); /* still under load */
	for (size_t i = 0; i < SIM_NODES; i++) {
		even_by[i] = m->taken[i] + uneven[i];
		sum += even_by[i];
	}
	for (size_t i = 0; i < SIM_NODES; i++) {
		assert_in_range(m->in_hand[i], m->in_hand[0] * 97 / 100, m->in_hand[0] * 103 / 100);
		assert_in_range(even_by[i], sum / SIM_NODES * 97 / 100, sum / SIM_NODES * 103 / 100);
	}
	strategy_close(&m->s);
	free(m);
}

static void
least_count_empties_a_backlog(void **state)
{
	static const int64_t uneven[SIM_NODES] = {490, 0, 0, 0};
	struct sim *m = malloc(sizeof *m);

	sim_start(m, uneven, 4000);
	for (unsigned step = 0; step < 120; step++)
		sim_step(m, step);
	assert_int_equal(m->left, 0);
	for (size_t i = 0; i < SIM_NODES; i++)
		assert_in_range(m->taken[i], 850, 1150); /* by chance of the hash, not of the quota */
	strategy_close(&m->s);
	free(m);
}

/* 300 nodes, the mean over a few ranks.  The limit leaves room for sanitizers and busy machines. */
static void
strategies_are_fast_with_300_nodes(void **state)
{
	static struct picture p;
	struct pgrab_shard_set set;

	picture_random(&p, NODES_MAX);
	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		struct strategy *s = open_strategy(strategy_builtin[i]->name, "");
		int64_t began = clock_mono_us();

		for (size_t rank = 0; rank < NODES_MAX; rank += 75)
			strategy_shards(s, &p.c, rank, &set);
		print_message(
		    "# %s: %lld us\n", strategy_builtin[i]->name, (long long)(clock_mono_us() - began) / 4);
		assert_true(clock_mono_us() - began < 4 * 200 * US_PER_MS);
		strategy_close(&s);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(least_count_quota_is_never_nothing_and_never_more_than_room),
	    cmocka_unit_test(least_count_pours_into_the_emptiest),
	    cmocka_unit_test(least_count_survives_strange_counts),
	    cmocka_unit_test(least_count_converges_to_equal_counts_under_load),
	    cmocka_unit_test(least_count_empties_a_backlog),
	    cmocka_unit_test(strategies_are_fast_with_300_nodes),
	};

	chance_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
