/*
 * default: first come, first served.
 *
 * Every node looks at every shard and the versioned claim alone decides.  No membership is needed and nothing
 * waits for an owner; the price is that nodes claim the same rows and all but one of them lose.  Right for
 * one node or two; with more, take a strategy that divides the shards.
 */
#include <pgrab/strategy.h>

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	(void)self;
	if (rank >= c->n_nodes)
		return;
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++)
		pgrab_shard_add(out, s);
}

const struct pgrab_strategy strategy_default = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "default",
    .summary = "first come, first served: every node looks at everything",
    .shards = shards,
    .overlapping = true,
};

PGRAB_STRATEGY_EXPORT(strategy_default)
