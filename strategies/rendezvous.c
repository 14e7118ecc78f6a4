/*
 * rendezvous: highest random weight; a join or leave moves only the shards it must.
 *
 * Every node gives every shard a score that depends on the two alone, and a shard goes to the node that
 * scores it highest.  A node that joins takes the shards it scores highest, from everybody a few; a node that
 * leaves frees its own.  Nothing else moves.
 *
 * Pure chance would make the shares uneven, so two things tame it.  A node's scores are a permutation of the
 * shards, not independent draws.  And nobody keeps more than its even part and SLACK shards: an overfull node
 * gives back the shard it scores lowest, which goes to the next best node. (Matching by deferred acceptance:
 * the outcome does not depend on the order of the steps.)  Without the bound shares of 4 nodes differ by 20
 * %; with no slack every join would stir the whole table.  Measured over random memberships: a join or leave
 * moves 1/n and 0.15 % on average, more than 1/n and 2 % once in 3,500 (docs/strategies.md).
 *
 * Integers only: a float rounded otherwise on another machine would be a second owner.
 */
#include <pgrab/strategy.h>

#define SLACK    8 /* shards */
#define NOBODY   UINT16_MAX
#define RANK_MAX PGRAB_SHARDS /* further nodes would hardly own a shard */

struct table {
	size_t n;
	uint32_t most; /* shards a node keeps */
	uint64_t key[RANK_MAX];
	uint32_t held[RANK_MAX];
	uint16_t owner[PGRAB_SHARDS];
	uint64_t score[PGRAB_SHARDS]; /* what the last node asked gave the shard: the next one asked is the
					 next lower */
};

/* The high bits are a permutation of the shards, a different one per key; the low ones break ties between
 * nodes. */
static uint64_t
score(uint64_t key, uint32_t shard)
{
	uint64_t x = shard, tie = (key ^ shard) * UINT64_C(0x9e3779b97f4a7c15);

	for (unsigned round = 0; round < 3; round++) {
		uint64_t k = key >> (20 * round);

		x = (x * (k | 1) + (k >> 10)) % PGRAB_SHARDS;
		x ^= x >> 5;
	}
	tie = (tie ^ (tie >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
	return x << 54 | tie >> 10;
}

/* The node that scores the shard highest of those not asked yet. */
static size_t
next_best(struct table *t, uint32_t shard)
{
	uint64_t best = 0;
	size_t found = t->n;

	for (size_t i = 0; i < t->n; i++) {
		uint64_t x = score(t->key[i], shard);

		if (x < t->score[shard] && (found == t->n || x > best)) {
			best = x;
			found = i;
		}
	}
	t->score[shard] = best;
	return found;
}

/* Of the shards the node holds and this one, that with the lowest score. */
static uint32_t
worst_of(const struct table *t, size_t node, uint32_t shard)
{
	uint32_t worst = shard;

	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		if (t->owner[s] == node && t->score[s] < t->score[worst])
			worst = s;
	}
	return worst;
}

/* Finds the shard a home.  One that has to make way for it looks for its next best in turn. */
static void
settle(struct table *t, uint32_t shard)
{
	for (;;) {
		size_t node = next_best(t, shard);

		if (node == t->n)
			return; /* every node refused: can not be, they have room for more than all shards */
		if (t->held[node] < t->most) {
			t->held[node]++;
			t->owner[shard] = (uint16_t)node;
			return;
		}
		uint32_t worst = worst_of(t, node, shard);

		t->owner[shard] = (uint16_t)node;
		t->owner[worst] = NOBODY;
		shard = worst;
	}
}

static void
fill(struct table *t, const struct pgrab_cluster *c)
{
	t->n = c->n_nodes < RANK_MAX ? c->n_nodes : RANK_MAX;
	t->most = (uint32_t)((PGRAB_SHARDS + t->n - 1) / t->n) + SLACK;
	for (size_t i = 0; i < t->n; i++) {
		t->key[i] = pgrab_mix64((uint64_t)c->nodes[i].id);
		t->held[i] = 0;
	}
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		t->owner[s] = NOBODY;
		t->score[s] = UINT64_MAX;
	}
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

const struct pgrab_strategy strategy_rendezvous = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "rendezvous",
    .summary = "even shares; a join or leave moves only the shards it must",
    .shards = shards,
};

#ifdef PGRAB_STRATEGY_SO
const struct pgrab_strategy *pgrab_strategy_v1(void);

const struct pgrab_strategy *
pgrab_strategy_v1(void)
{
	return &strategy_rendezvous;
}
#endif
