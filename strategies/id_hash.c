/*
 * id_hash: the task's hash over the live nodes, in rank order.
 *
 * A task's shard is a hash of its id; the shards are dealt out to the live nodes in turn, so no two nodes
 * differ by more than one shard.  When a node dies the ranks above it move down and most shards change hands:
 * the cheapest rule to explain, and exact, but not the calmest (see rendezvous).
 *
 * Only the order of the live nodes counts.  There are no numbers stored with the nodes that could have holes.
 */
#include <pgrab/strategy.h>

/*
 * A fixed permutation of the shards, so that neighbours do not land on one node for every n.  It mixes a high
 * bit into the low ones: else node and loader (which takes every k-th shard) would divide by the same bits,
 * and with two loaders one of them would get nothing.
 */
static uint32_t
place(uint32_t shard)
{
	return ((shard ^ (shard >> 5)) * 421) % PGRAB_SHARDS;
}

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	(void)self;
	if (rank >= c->n_nodes)
		return;
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		if (place(s) % c->n_nodes == rank)
			pgrab_shard_add(out, s);
	}
}

const struct pgrab_strategy strategy_id_hash = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "id_hash",
    .summary = "the task's hash over the live nodes in rank order: equal shares",
    .shards = shards,
};

/* Every strategy divides a task's shards among the nodes that can run it only, so a rule by
 * labels has nothing to add. */
const struct pgrab_strategy strategy_labels = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "labels",
    .summary = "another name for id_hash: every strategy gives tasks to nodes with the labels they require",
    .shards = shards,
};

#ifdef PGRAB_STRATEGY_SO
const struct pgrab_strategy *pgrab_strategy_v1(void);

const struct pgrab_strategy *
pgrab_strategy_v1(void)
{
	return &strategy_id_hash;
}
#endif
