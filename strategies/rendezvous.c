/*
 * rendezvous: highest random weight; a join or leave moves only the shards it must.
 *
 * Every node gives every shard a score that depends on the two alone, and a shard goes to the node that
 * scores it highest.  A node that joins takes the shards it scores highest, a few from every other node; a
 * node that leaves frees its own.  Nothing else moves.
 *
 * Pure chance would make the shares uneven, so two things tame it.  A node's scores are a permutation of the
 * shards, not independent draws.  And nobody keeps more than its even part and SLACK shards: an overfull node
 * gives back the shard it scores lowest, which goes to the next best node (acceptance.h).  Without the bound
 * shares of 4 nodes differ by 20 %; with no slack every join would stir the whole table.  Measured over
 * random memberships: a join or leave moves 1/n and 0.15 % on average, more than 1/n and 2 % once in 3,500
 * (docs/strategies.md).
 */
#include "acceptance.h"

#define SLACK 8 /* shards */

/* The node that draws highest gets the shard. */
static uint64_t
cost(const struct table *t, size_t node, uint32_t shard)
{
	return ~draw(t->key[node], shard);
}

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	struct table t;

	(void)self;
	if (rank >= c->n_nodes)
		return;
	table_begin(&t, c);
	for (size_t i = 0; i < t.n; i++)
		t.room[i] = (uint32_t)((PGRAB_SHARDS + t.n - 1) / t.n) + SLACK;
	if (!table_is_settled(&t))
		table_settle(&t, cost);
	table_give(rank, out);
}

const struct pgrab_strategy strategy_rendezvous = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "rendezvous",
    .summary = "even shares; a join or leave moves only the shards it must",
    .shards = shards,
};

PGRAB_STRATEGY_EXPORT(strategy_rendezvous)
