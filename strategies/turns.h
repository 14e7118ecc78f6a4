/* Equal shares: the shards are dealt out to the live nodes in turn, by rank, so that no two of them differ by
 * more than one.  Only the order of the live nodes counts, no number that is stored with them. */
#pragma once

#include <pgrab/strategy.h>

/* A fixed permutation of the shards, so that neighbours do not land on one node for every n.  It mixes a high
 * bit into the low ones: else node and loader (which takes every k-th shard) would divide by the same bits,
 * and with two loaders one of them would get nothing. */
static inline uint32_t
mixed(uint32_t shard)
{
	return ((shard ^ (shard >> 5)) * 421) % PGRAB_SHARDS;
}

/* As a strategy's shards(). */
static inline void
deal_in_turn(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	(void)self;
	if (rank >= c->n_nodes)
		return;
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		if (mixed(s) % c->n_nodes == rank)
			pgrab_shard_add(out, s);
	}
}
