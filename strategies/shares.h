/*
 * Unequal shares: how many shards each node gets, and which.
 *
 * The counts are exact to one: share / sum of shares * 1024, rounded by largest remainder.  Which ones is a
 * weighted rendezvous: every shard has its own order of the nodes, heavier ones earlier, and a node that is
 * full gives back the shard that wants it least (acceptance.h).  So a changed share moves the shards it must
 * and few others.
 *
 * All nodes must get the same numbers to the last bit, so floats are used for the counts only, in an order
 * and form that leaves a compiler nothing to contract; the rest is integers.
 */
#pragma once

#include "acceptance.h"

#include <float.h>

#define SIZE_MOST 65535

static inline double
weight_of(const struct pgrab_node *n)
{
	if (!(n->weight > 0)) /* true of NaN too */
		return 0;
	return n->weight < DBL_MAX ? n->weight : DBL_MAX;
}

/* Rounds the shares down and hands the shards left over to the largest remainders, the lower rank first among
 * equals. */
static inline void
shares_round(struct table *t, double *share, uint32_t left)
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

/* From those that have most, until each node that wants any has so many. */
static inline void
shares_at_least(struct table *t, uint32_t least)
{
	for (size_t i = 0; i < t->n; i++) {
		while (t->want[i] > 0 && t->room[i] < least) {
			size_t most = 0;

			for (size_t k = 1; k < t->n; k++) {
				if (t->room[k] > t->room[most])
					most = k;
			}
			if (t->room[most] <= least)
				return;
			t->room[most]--;
			t->room[i]++;
			/* Else most shards would ask it last, after all that are full. */
			t->size[i] = SIZE_MOST * t->room[i] / t->room[most];
		}
	}
}

/* From wishes of any size; all 0: all are equal.  A node that wants any gets `least` shards at least. */
static inline void
shares_count(struct table *t, uint32_t least)
{
	double share[RANK_MAX], most = 0, sum = 0;

	for (size_t i = 0; i < t->n; i++)
		most = t->want[i] > most ? t->want[i] : most;
	for (size_t i = 0; i < t->n; i++) {
		share[i] = most > 0 ? t->want[i] / most : 1; /* the sum of huge ones must not overflow */
		t->size[i] = (uint32_t)(share[i] * SIZE_MOST) + 1;
		sum += share[i];
	}
	for (size_t i = 0; i < t->n; i++)
		share[i] = share[i] / sum * PGRAB_SHARDS;
	shares_round(t, share, PGRAB_SHARDS);
	shares_at_least(t, least);
}

/* -log2(x / 2^64) in units of 2^-24, x > 0; good to 1 %. */
static inline uint64_t
shares_minus_log2(uint64_t x)
{
	unsigned zeros = (unsigned)__builtin_clzll(x);
	uint64_t one = UINT64_C(1) << 24, f = (x << zeros) << 1 >> 40; /* x = 2^(63-zeros) * (1 + f / one) */

	return (zeros + 1) * one - f - ((f * (one - f)) >> 24) * 88 / 256;
}

/* An exponential draw divided by the share, so that the odds are as the shares.  Not by the room: that has
 * steps, and changes with every other node. */
static inline uint64_t
shares_cost(const struct table *t, size_t node, uint32_t shard)
{
	return (shares_minus_log2(draw(t->key[node], shard) | 1) << 20) / t->size[node];
}

/* What the node with this rank owns, once all wishes are known. */
static inline void
shares_give(struct table *t, uint32_t least, size_t rank, struct pgrab_shard_set *out)
{
	if (!table_is_settled(t)) {
		shares_count(t, least);
		table_settle(t, shares_cost);
	}
	table_give(rank, out);
}
