/*
 * Deferred acceptance, for strategies that give every shard to the node it costs least.
 *
 * Every shard has its own order of the nodes, the cheapest first (the lower rank among equals).  It asks them
 * in turn; a node that is full keeps the shards that are cheapest for it and gives the dearest back, which
 * asks its next one.  The outcome does not depend on the order of the steps.
 *
 * Integers only: a float that another machine rounds differently would make a second owner.
 */
#pragma once

#include <pgrab/strategy.h>

#include <string.h>

#define NOBODY   UINT16_MAX
#define RANK_MAX PGRAB_SHARDS /* further nodes would hardly own a shard */

struct table {
	size_t n;
	uint64_t key[RANK_MAX];
	double want[RANK_MAX];   /* what the rooms are made of, beside the number of nodes */
	uint32_t room[RANK_MAX]; /* shards a node keeps; their sum is PGRAB_SHARDS or more; 0: not asked */
	uint32_t size[RANK_MAX]; /* for cost functions that want one */
	uint32_t held[RANK_MAX];
	uint16_t owner[PGRAB_SHARDS];
	uint16_t asked[PGRAB_SHARDS]; /* the node asked last ... */
	uint64_t cost[PGRAB_SHARDS];  /* ... and what it costs */
};

typedef uint64_t cost_fn(const struct table *t, size_t node, uint32_t shard);

/* A draw for a node and a shard.  The high bits are a permutation of the shards, a different one per key, so
 * that shares are more even than by chance; the low ones break ties between nodes. */
static inline uint64_t
draw(uint64_t key, uint32_t shard)
{
	uint64_t x = shard, low = (key ^ shard) * UINT64_C(0x9e3779b97f4a7c15);

	for (unsigned round = 0; round < 3; round++) {
		uint64_t k = key >> (20 * round);

		x = (x * (k | 1) + (k >> 10)) % PGRAB_SHARDS;
		x ^= x >> 5;
	}
	low = (low ^ (low >> 29)) * UINT64_C(0xbf58476d1ce4e5b9);
	return x << 54 | low >> 10;
}

/* The cheapest node that the shard has not asked yet, or t->n. */
static inline size_t
next_cheapest(struct table *t, uint32_t shard, cost_fn *cost)
{
	uint64_t best = UINT64_MAX;
	size_t found = t->n;

	for (size_t i = 0; i < t->n; i++) {
		uint64_t x;

		if (t->room[i] == 0)
			continue;
		x = cost(t, i, shard);
		if (t->asked[shard] != NOBODY &&
		    (x < t->cost[shard] || (x == t->cost[shard] && i <= t->asked[shard])))
			continue;
		if (x < best || found == t->n) {
			best = x;
			found = i;
		}
	}
	t->asked[shard] = (uint16_t)found;
	t->cost[shard] = best;
	return found;
}

/* Of the shards the node holds and this one, the dearest. */
static inline uint32_t
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

/* Finds the shard a home.  A shard that has to make way for it asks its own next cheapest node in turn. */
static inline void
settle(struct table *t, uint32_t shard, cost_fn *cost)
{
	for (;;) {
		size_t node = next_cheapest(t, shard, cost);

		if (node == t->n)
			return; /* every node refused: cannot happen, there is room for all shards */
		if (t->held[node] < t->room[node]) {
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

/* The table of this cluster, everything but who has room for how much. */
static inline void
table_begin(struct table *t, const struct pgrab_cluster *c)
{
	t->n = c->n_nodes < RANK_MAX ? c->n_nodes : RANK_MAX;
	for (size_t i = 0; i < t->n; i++) {
		t->key[i] = pgrab_mix64((uint64_t)c->nodes[i].id);
		t->held[i] = t->size[i] = 0;
		t->want[i] = 0;
	}
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++)
		t->owner[s] = t->asked[s] = NOBODY;
}

/* The last answer of this thread, and the nodes and wishes that it is for.  Whoever asks for one rank often
 * asks for the others next. */
struct settled {
	size_t n;
	uint64_t key[RANK_MAX];
	double want[RANK_MAX];
	uint16_t owner[PGRAB_SHARDS];
};
static _Thread_local struct settled settled;

static inline bool
table_is_settled(const struct table *t)
{
	return settled.n == t->n && memcmp(settled.key, t->key, t->n * sizeof *t->key) == 0 &&
	       memcmp(settled.want, t->want, t->n * sizeof *t->want) == 0;
}

/* Settles all shards, once it is known who has room for how many. */
static inline void
table_settle(struct table *t, cost_fn *cost)
{
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++)
		settle(t, s, cost);
	settled.n = t->n;
	memcpy(settled.key, t->key, t->n * sizeof *t->key);
	memcpy(settled.want, t->want, t->n * sizeof *t->want);
	memcpy(settled.owner, t->owner, sizeof t->owner);
}

/* After that: what the node with this rank owns. */
static inline void
table_give(size_t rank, struct pgrab_shard_set *out)
{
	for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
		if (settled.owner[s] == rank)
			pgrab_shard_add(out, s);
	}
}
