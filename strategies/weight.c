/*
 * weight: shares in proportion to the nodes' weights.
 *
 * How many shards each node gets is exact to one: weight / sum of weights * 1024, rounded by largest
 * remainder.  Which ones is a weighted rendezvous: every shard has its own order of the nodes, heavier ones
 * earlier, and a node that is full gives back the shard that wants it least (acceptance.h).  So a changed
 * weight moves the shards it must and few others.
 *
 * Weight 0 takes nothing, unless all weights are 0: then all are equal.  A positive weight whose share is
 * well below one shard takes nothing either.
 *
 * All nodes must get the same numbers to the last bit, so floats are used for the counts only, in an order
 * and form that leaves a compiler nothing to contract; the rest is integers.
 */
#include "acceptance.h"

#include <float.h>

static double
weight_of(const struct pgrab_node *n)
{
	if (!(n->weight > 0)) /* true of NaN too */
		return 0;
	return n->weight < DBL_MAX ? n->weight : DBL_MAX;
}

/* Rounds the shares down and hands the shards left over to the largest remainders, the lower rank first among
 * equals. */
static void
round_shares(struct table *t, double *share, uint32_t left)
{
	for (size_t i = 0; i < t->n; i++) {
		t->room[i] = (uint32_t)share[i];
		share[i] -= (double)t->room[i];
		left -= t->room[i];
	}
	for (; left > 0; left--) {
		size_t most = 0;

		for (size_t i = 1; i < t->n; i++) {
			if (share[i] > share[most])
				most = i;
		}
		t->room[most]++;
		share[most] = -1;
	}
}

static void
count_shards(struct table *t, const struct pgrab_cluster *c)
{
	double share[RANK_MAX], heaviest = 0, sum = 0;

	for (size_t i = 0; i < t->n; i++) {
		share[i] = weight_of(&c->nodes[i]);
		if (share[i] > heaviest)
			heaviest = share[i];
	}
	for (size_t i = 0; i < t->n; i++) {
		share[i] =
		    heaviest > 0 ? share[i] / heaviest : 1; /* the sum of huge weights must not overflow */
		sum += share[i];
	}
	for (size_t i = 0; i < t->n; i++)
		share[i] = share[i] / sum * PGRAB_SHARDS;
	round_shares(t, share, PGRAB_SHARDS);
}

/* -log2(x / 2^64) in units of 2^-24, x > 0; good to 1 %. */
static uint64_t
minus_log2(uint64_t x)
{
	unsigned zeros = (unsigned)__builtin_clzll(x);
	uint64_t one = UINT64_C(1) << 24, f = (x << zeros) << 1 >> 40; /* x = 2^(63-zeros) * (1 + f / one) */

	return (zeros + 1) * one - f - ((f * (one - f)) >> 24) * 88 / 256;
}

/* An exponential draw divided by the share, so that the odds are as the shares. */
static uint64_t
cost(const struct table *t, size_t node, uint32_t shard)
{
	return (minus_log2(draw(t->key[node], shard) | 1) << 20) / t->room[node];
}

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	struct table t;

	(void)self;
	if (rank >= c->n_nodes)
		return;
	table_begin(&t, c);
	count_shards(&t, c);
	table_settle(&t, cost, rank, out);
}

const struct pgrab_strategy strategy_weight = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "weight",
    .summary = "shares in proportion to the nodes' weights",
    .shards = shards,
};

#ifdef PGRAB_STRATEGY_SO
const struct pgrab_strategy *pgrab_strategy_v1(void);

const struct pgrab_strategy *
pgrab_strategy_v1(void)
{
	return &strategy_weight;
}
#endif
