/*
 * weight: shares in proportion to the nodes' weights.
 *
 * How many shards each node gets is exact to one, and which ones moves little (shares.h).  Weight 0 takes
 * nothing, unless all weights are 0: then all are equal.  A positive weight whose share is well below one
 * shard takes nothing either.
 */
#include "shares.h"

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	struct table t;

	(void)self;
	if (rank >= c->n_nodes)
		return;
	table_begin(&t, c);
	for (size_t i = 0; i < t.n; i++)
		t.want[i] = weight_of(&c->nodes[i]);
	shares_give(&t, 0, rank, out);
}

const struct pgrab_strategy strategy_weight = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "weight",
    .summary = "shares in proportion to the nodes' weights",
    .shards = shards,
};

PGRAB_STRATEGY_EXPORT(strategy_weight)
