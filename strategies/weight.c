/*
 * weight: shares in proportion to the nodes' weights.
 *
 * How many shards each node gets is exact to one: weight / sum of weights * 1024, rounded by largest
 * remainder.  Which ones is a weighted rendezvous: every shard has its own order of the nodes, heavier ones
 * earlier, and a node that is full gives back the shard that wants it least.  (Deferred acceptance: the
 * outcome does not depend on the order of the steps.)  So a changed weight moves the shards it must and few
 * others.
 *
 * Weight 0 takes nothing, unless all weights are 0: then all are equal.  A positive weight whose share is
 * well below one shard takes nothing either.
 *
 * All nodes must get the same numbers to the last bit, so floats are used for the counts only, in an order
 * and form that leaves a compiler nothing to contract; the rest is integers.
 */
#include <pgrab/strategy.h>

#include <float.h>

#define NOBODY   UINT16_MAX
#define RANK_MAX PGRAB_SHARDS /* further nodes could not all get a shard */

struct table {
	size_t n;
	uint64_t key[RANK_MAX];
	uint32_t count[RANK_MAX]; /* shards the node gets; the sum is PGRAB_SHARDS */
	uint32_t held[RANK_MAX];
	uint16_t owner[PGRAB_SHARDS];
	uint16_t asked[PGRAB_SHARDS]; /* the node asked last, and what it costs: the next one is dearer, or as
					 dear with a higher rank */
	uint64_t cost[PGRAB_SHARDS];
};

static double
weight_of(const struct pgrab_node *n)
{
	if (!(n->weight > 0)) /* not a number, too */
		return 0;
	return n->weight < DBL_MAX ? n->weight : DBL_MAX;
}

/* Rounds the shares down and hands the shards left over to the largest remainders, the lower rank first among
 * equals. */
static void
round_shares(struct table *t, double *share, uint32_t left)
{
	for (size_t i = 0; i < t->n; i++) {
		t->count[i] = (uint32_t)share[i];
		share[i] -= (double)t->count[i];
		left -= t->count[i];
	}
	for (; left > 0; left--) {
		size_t most = 0;

		for (size_t i = 1; i < t->n; i++) {
			if (share[i] > share[most])
				most = i;
		}
		t->count[most]++;
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

/* The cheapest node gets the shard: an exponential draw divided by the share, so that the odds are as the
 * shares.  The draws of one node are a permutation of the shards, with low bits of their own. */
static uint64_t
cost(uint64_t key, uint32_t count, uint32_t shard)
{
	uint64_t x = shard, low = (key ^ shard) * UINT64_C(0x9e3779b97f4a7c15);

	for (unsigned round = 0; round < 3; round++) {
		uint64_t k = key >> (20 * round);

		x = (x * (k | 1) + (k >> 10)) % PGRAB_SHARDS;
		x ^= x >> 5;
	}
	low = (low ^ (low >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
	return (minus_log2(x << 54 | low >> 10 | 1) << 20) / count;
}

static size_t
next_cheapest(struct table *t, uint32_t shard)
{
	uint64_t best = UINT64_MAX;
	size_t found = t->n;

	for (size_t i = 0; i < t->n; i++) {
		uint64_t x;

		if (t->count[i] == 0)
			continue;
		x = cost(t->key[i], t->count[i], shard);
		if (t->asked[shard] != NOBODY &&
		    (x < t->cost[shard] || (x == t->cost[shard] && i <= t->asked[shard])))
			continue;
		if (x < best) {
			best = x;
			found = i;
		}
	}
	t->asked[shard] = (uint16_t)found;
	t->cost[shard] = best;
	return found;
}

/* Of the shards the node holds and this one, the dearest. */
static uint32_t
dearest_of(const struct table *t, size_t node, uint32_t shard)
{
	uint32_t dearest = shard;

	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		if (t->owner[s] != node)
			continue;
		if (t->cost[s] > t->cost[dearest] || (t->cost[s] == t->cost[dearest] && s > dearest))
			dearest = s;
	}
	return dearest;
}

/* Finds the shard a home.  One that has to make way for it looks for its next cheapest in turn. */
static void
settle(struct table *t, uint32_t shard)
{
	for (;;) {
		size_t node = next_cheapest(t, shard);

		if (node == t->n)
			return; /* every node refused: can not be, there are as many places as shards */
		if (t->held[node] < t->count[node]) {
			t->held[node]++;
			t->owner[shard] = (uint16_t)node;
			return;
		}
		uint32_t dearest = dearest_of(t, node, shard);

		t->owner[shard] = (uint16_t)node;
		t->owner[dearest] = NOBODY;
		shard = dearest;
	}
}

static void
fill(struct table *t, const struct pgrab_cluster *c)
{
	t->n = c->n_nodes < RANK_MAX ? c->n_nodes : RANK_MAX;
	count_shards(t, c);
	for (size_t i = 0; i < t->n; i++) {
		t->key[i] = pgrab_mix64((uint64_t)c->nodes[i].id);
		t->held[i] = 0;
	}
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++)
		t->owner[s] = t->asked[s] = NOBODY;
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++)
		settle(t, s);
}

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	struct table t;

	(void)self;
	if (rank >= c->n_nodes)
		return;
	fill(&t, c);
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		if (t.owner[s] == rank)
			pgrab_shard_add(out, s);
	}
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
