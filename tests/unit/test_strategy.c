/*
 * The built-in strategies against their promises, over random memberships: each node asks alone, and the
 * answers must fit together.
 */
#include "strategy/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "clusters.h"

#define NOBODY (-1)

/* Few nodes mostly, many now and then. */
static size_t
some_nodes(void)
{
	return 1 + (size_t)chance(chance(100) == 0 ? 30 : 8);
}

/* Who owns each shard, as the id of the node, put together from the answers of all; fails when a shard has
 * two owners or none. */
static void
owners(struct strategy *s, struct picture *p, int64_t *owner_out)
{
	struct pgrab_shard_set set, again;

	for (unsigned i = 0; i < PGRAB_SHARDS; i++)
		owner_out[i] = NOBODY;
	for (size_t rank = 0; rank < p->c.n_nodes; rank++) {
		p->c.self = rank; /* as that node asks about itself */
		strategy_shards(s, &p->c, rank, &set);
		p->c.self = p->c.n_nodes; /* as a stranger asks about it */
		strategy_shards(s, &p->c, rank, &again);
		assert_memory_equal(&set, &again, sizeof set);
		for (unsigned i = 0; i < PGRAB_SHARDS; i++) {
			if (!pgrab_shard_has(&set, i))
				continue;
			if (owner_out[i] != NOBODY)
				fail_msg("shard %u has two owners, %zu nodes", i, p->c.n_nodes);
			owner_out[i] = p->node[rank].id;
		}
	}
	for (unsigned i = 0; i < PGRAB_SHARDS; i++) {
		if (owner_out[i] == NOBODY)
			fail_msg("shard %u has no owner, %zu nodes", i, p->c.n_nodes);
	}
}

static unsigned
count_of(const int64_t *owner, int64_t id)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PGRAB_SHARDS; i++)
		n += owner[i] == id;
	return n;
}

static unsigned
moved(const int64_t *a, const int64_t *b)
{
	unsigned n = 0;

	for (unsigned i = 0; i < PGRAB_SHARDS; i++)
		n += a[i] != b[i];
	return n;
}

static void
every_shard_has_exactly_one_owner(void **state)
{
	static struct picture p;
	int64_t owner[PGRAB_SHARDS];

	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		struct strategy *s = open_strategy(strategy_builtin[i]->name, "");

		for (unsigned turn = 0; turn < 200 && !strategy_overlapping(s); turn++) {
			picture_random(&p, some_nodes());
			owners(s, &p, owner);
		}
		strategy_close(&s);
	}
}

static void
every_shard_has_exactly_one_owner_among_many_nodes(void **state)
{
	static const struct {
		const char *name;
		size_t nodes;
	} many[] = {
	    {"id_hash", 300}, {"least_count", 300}, {"rendezvous", 300}, {"weight", 300}, {"adaptive", 300}};
	static struct picture p;
	int64_t owner[PGRAB_SHARDS];

	for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
		struct strategy *s = open_strategy(many[i].name, "");

		picture_random(&p, many[i].nodes);
		owners(s, &p, owner);
		strategy_close(&s);
	}
}

/* What was asked before changes no answer. */
static void
answers_do_not_depend_on_earlier_ones(void **state)
{
	static struct picture a, b;

	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		struct strategy *s = open_strategy(strategy_builtin[i]->name, "");

		for (unsigned turn = 0; turn < 50; turn++) {
			size_t n = 1 + some_nodes(), one = (size_t)chance(n);
			struct pgrab_shard_set first, between, again;

			picture_random(&a, n);
			b = a;
			b.c.nodes = b.node;
			b.node[one].weight = b.node[one].weight * 2 + 1;
			b.node[one].fitness = 1 + (int64_t)chance(400);
			strategy_shards(s, &a.c, one, &first);
			strategy_shards(s, &b.c, one, &between);
			strategy_shards(s, &a.c, one, &again);
			assert_memory_equal(&first, &again, sizeof first);
			strategy_close(&s);
			s = open_strategy(strategy_builtin[i]->name, "");
			strategy_shards(s, &b.c, one, &again);
			assert_memory_equal(&between, &again, sizeof between);
		}
		strategy_close(&s);
	}
}

static void
default_gives_all_shards_to_all(void **state)
{
	struct strategy *s = open_strategy("default", "");
	static struct picture p;
	struct pgrab_shard_set set;

	assert_true(strategy_overlapping(s));
	picture_random(&p, 7);
	for (size_t rank = 0; rank < 7; rank++) {
		strategy_shards(s, &p.c, rank, &set);
		assert_int_equal(set_count(&set), PGRAB_SHARDS);
	}
	strategy_close(&s);
}

static void
nobody_alive_or_a_stranger_owns_nothing(void **state)
{
	struct pgrab_candidate t = {.size = sizeof t, .id = 1, .shard = 5, .has_require = true};
	static struct picture p;
	struct pgrab_shard_set set;

	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		const struct pgrab_strategy *s = strategy_builtin[i];
		void *self = s->open != NULL ? s->open("", NULL, 0) : NULL;

		for (size_t n = 0; n < 3; n++) {
			picture_random(&p, n);
			p.c.self = n;
			memset(&set, 0, sizeof set);
			s->shards(self, &p.c, n, &set); /* not by way of the host, which would catch it */
			assert_int_equal(set_count(&set), 0);
			if (s->quota != NULL)
				assert_int_equal(s->quota(self, &p.c, 10), 0);
			if (s->accept != NULL)
				assert_false(s->accept(self, &p.c, &t));
		}
		if (s->close != NULL)
			s->close(self);
	}
}

static void
equal_shares_differ_by_at_most_one_shard(void **state)
{
	static const char *const names[] = {"id_hash", "least_count"};
	static struct picture p;
	struct pgrab_shard_set set;

	for (size_t i = 0; i < 2; i++) {
		struct strategy *s = open_strategy(names[i], "");

		for (size_t n = 1; n <= NODES_MAX; n += 1 + n / 8) {
			picture_random(&p, n);
			for (size_t rank = 0; rank < n; rank++) {
				strategy_shards(s, &p.c, rank, &set);
				assert_in_range(set_count(&set), PGRAB_SHARDS / n, PGRAB_SHARDS / n + 1);
			}
		}
		strategy_close(&s);
	}
}

/* Loader k of m takes the shards with number % m == k; each must get its part of what the node owns. */
static void
id_hash_leaves_every_loader_its_part(void **state)
{
	struct strategy *s = open_strategy("id_hash", "");
	static struct picture p;
	struct pgrab_shard_set set;

	for (size_t n = 1; n <= 16; n++) {
		picture_random(&p, n);
		for (size_t rank = 0; rank < n; rank++) {
			unsigned part[4] = {0};

			strategy_shards(s, &p.c, rank, &set);
			for (unsigned i = 0; i < PGRAB_SHARDS; i++)
				part[i % 4] += pgrab_shard_has(&set, i);
			for (unsigned k = 0; k < 4; k++)
				assert_in_range(part[k], PGRAB_SHARDS / n / 8, PGRAB_SHARDS / n / 2 + 1);
		}
	}
	strategy_close(&s);
}

static void
weight_gives_each_its_share_to_one_shard(void **state)
{
	struct strategy *s = open_strategy("weight", "");
	static struct picture p;
	int64_t owner[PGRAB_SHARDS];

	for (unsigned turn = 0; turn < 200; turn++) {
		double sum = 0;
		size_t n = some_nodes();

		picture_random(&p, n);
		for (size_t i = 0; i < n; i++)
			sum += p.node[i].weight;
		owners(s, &p, owner);
		for (size_t i = 0; i < n; i++) {
			double want = PGRAB_SHARDS * (sum > 0 ? p.node[i].weight / sum : 1.0 / (double)n);
			double got = count_of(owner, p.node[i].id);

			assert_true(got > want - 1 && got < want + 1);
			if (sum > 0 && !(p.node[i].weight > 0))
				assert_true(got == 0);
		}
	}
	strategy_close(&s);
}

static void
weight_takes_strange_numbers(void **state)
{
	static const struct {
		double weight[3];
		unsigned shards[3];
	} rows[] = {
	    {{0, 0, 0}, {342, 341, 341}},
	    {{0, 5, 0}, {0, 1024, 0}},
	    {{1e308, 1e308, 1e308}, {342, 341, 341}},
	    {{1e-300, 1e-300, 2e-300}, {256, 256, 512}},
	    {{-1, 1, 1}, {0, 512, 512}},
	    {{0.0 / 0.0, 1, 3}, {0, 256, 768}},
	    {{1.0 / 0.0, 1, 1.0 / 0.0}, {512, 0, 512}},
	    {{1, 1e9, 0}, {0, 1024, 0}},
	};
	struct strategy *s = open_strategy("weight", "");
	static struct picture p;
	int64_t owner[PGRAB_SHARDS];

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		picture_random(&p, 3);
		for (size_t k = 0; k < 3; k++)
			p.node[k].weight = rows[i].weight[k];
		owners(s, &p, owner);
		for (size_t k = 0; k < 3; k++)
			assert_int_equal(count_of(owner, p.node[k].id), rows[i].shards[k]);
	}
	strategy_close(&s);
}

/* What must move is what the counts say; a little more is stirred up. */
static void
weight_change_moves_little_more_than_it_must(void **state)
{
	struct strategy *s = open_strategy("weight", "");
	unsigned all = 0, must = 0;
	static struct picture p;

	for (unsigned turn = 0; turn < 150; turn++) {
		int64_t before[PGRAB_SHARDS], after[PGRAB_SHARDS];
		size_t n = 2 + (size_t)chance(6), one = (size_t)chance(n);
		unsigned grown = 0, m;

		picture_random(&p, n);
		owners(s, &p, before);
		p.node[one].weight *= 1 + (double)(1 + chance(10)) / 10;
		owners(s, &p, after);
		for (size_t i = 0; i < n; i++) {
			unsigned a = count_of(before, p.node[i].id), b = count_of(after, p.node[i].id);

			grown += b > a ? b - a : 0;
		}
		m = moved(before, after);
		assert_true(m >= grown);
		assert_in_range(m, 0, 2 * grown + PGRAB_SHARDS * 4 / 100);
		all += m;
		must += grown;
	}
	print_message("# weight: moved %u, had to move %u\n", all, must);
	assert_true(all < must * 3 / 2);
	strategy_close(&s);
}

static unsigned
moves_of_a_leave(struct strategy *s, struct picture *p, size_t gone)
{
	int64_t before[PGRAB_SHARDS], after[PGRAB_SHARDS];
	static struct picture rest;

	picture_without(&rest, p, gone);
	owners(s, p, before);
	owners(s, &rest, after);
	return moved(before, after);
}

/* A join is the same pair of pictures the other way round. */
static void
rendezvous_join_or_leave_moves_what_it_must(void **state)
{
	struct strategy *s = open_strategy("rendezvous", "");
	unsigned rounds = 300, over = 0;
	static struct picture p;

	for (unsigned turn = 0; turn < rounds; turn++) {
		size_t n = 2 + (size_t)chance(chance(50) == 0 ? 30 : 9);
		unsigned m, share;

		picture_random(&p, n);
		share = PGRAB_SHARDS / (unsigned)n;
		m = moves_of_a_leave(s, &p, (size_t)chance(n));
		assert_in_range(m, 0, share + PGRAB_SHARDS * 4 / 100);
		over += m > share + PGRAB_SHARDS * 2 / 100;
	}
	/* Hashes are chance: about one in 3,500. */
	assert_in_range(over, 0, 2);
	strategy_close(&s);
}

static void
rendezvous_moves_at_most_1_of_n_and_2_percent_for_the_first_ids(void **state)
{
	struct strategy *s = open_strategy("rendezvous", "");
	static struct picture p;

	for (size_t n = 2; n <= 12; n++) {
		for (size_t gone = 0; gone < n; gone++) {
			picture_random(&p, n);
			for (size_t i = 0; i < n; i++)
				p.node[i].id = (int64_t)i + 1;
			assert_in_range(
			    moves_of_a_leave(s, &p, gone), 0, PGRAB_SHARDS / n + PGRAB_SHARDS * 2 / 100);
		}
	}
	strategy_close(&s);
}

static void
rendezvous_shares_are_even_within_slack(void **state)
{
	struct strategy *s = open_strategy("rendezvous", "");
	static struct picture p;
	struct pgrab_shard_set set;

	for (unsigned turn = 0; turn < 150; turn++) {
		size_t n = some_nodes();

		picture_random(&p, n);
		for (size_t rank = 0; rank < n; rank++) {
			strategy_shards(s, &p.c, rank, &set);
			assert_in_range(set_count(&set), 0, (PGRAB_SHARDS + n - 1) / n + 8);
		}
	}
	strategy_close(&s);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_shard_has_exactly_one_owner),
	    cmocka_unit_test(every_shard_has_exactly_one_owner_among_many_nodes),
	    cmocka_unit_test(answers_do_not_depend_on_earlier_ones),
	    cmocka_unit_test(default_gives_all_shards_to_all),
	    cmocka_unit_test(nobody_alive_or_a_stranger_owns_nothing),
	    cmocka_unit_test(equal_shares_differ_by_at_most_one_shard),
	    cmocka_unit_test(id_hash_leaves_every_loader_its_part),
	    cmocka_unit_test(weight_gives_each_its_share_to_one_shard),
	    cmocka_unit_test(weight_takes_strange_numbers),
	    cmocka_unit_test(weight_change_moves_little_more_than_it_must),
	    cmocka_unit_test(rendezvous_join_or_leave_moves_what_it_must),
	    cmocka_unit_test(rendezvous_moves_at_most_1_of_n_and_2_percent_for_the_first_ids),
	    cmocka_unit_test(rendezvous_shares_are_even_within_slack),
	};

	chance_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
