/*
 * Random pictures of a cluster, and a strategy to ask about them.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pgrab/strategy.h"
#include "strategy/host.h"

#define NODES_MAX 300

static uint64_t chance_state;

/* PGRAB_SEED repeats a run. */
static inline void
chance_seed(void)
{
	const char *s = getenv("PGRAB_SEED");

	chance_state = s != NULL ? strtoull(s, NULL, 10) : (uint64_t)time(NULL);
	fprintf(stderr, "PGRAB_SEED=%llu\n", (unsigned long long)chance_state); /* not stdout: see random.h */
}

static inline uint64_t
chance(uint64_t below)
{
	return pgrab_mix64(chance_state++) % below;
}

struct picture {
	struct pgrab_cluster c;
	struct pgrab_node node[NODES_MAX];
};

static const struct pgrab_label label_sets[][2] = {
    {{"disk", "ssd"}, {"zone", "eu"}},
    {{"disk", "hdd"}, {"zone", "eu"}},
    {{"zone", "us"}, {NULL, NULL}},
    {{NULL, NULL}, {NULL, NULL}},
};

static inline void
give_labels(struct pgrab_node *n, size_t set)
{
	n->labels = label_sets[set];
	n->n_labels = (label_sets[set][0].key != NULL) + (label_sets[set][1].key != NULL);
}

/* n nodes with ascending ids, some far apart, some weightless, some busy; asked by the first. */
static inline void
picture_random(struct picture *p, size_t n)
{
	int64_t id = (int64_t)chance(1000), gap = chance(2) == 0 ? 1 : 1 + (int64_t)chance(1000000);

	p->c = (struct pgrab_cluster){
	    .size = sizeof p->c, .shards = PGRAB_SHARDS, .n_nodes = n, .nodes = p->node};
	for (size_t i = 0; i < n; i++) {
		struct pgrab_node *one = &p->node[i];

		id += 1 + (int64_t)chance((uint64_t)gap);
		*one =
		    (struct pgrab_node){.id = id, .name = "n", .weight = 1, .slots = 1 + (int64_t)chance(32)};
		one->fitness = chance(3) == 0 ? 1 + (int64_t)chance(400) : 100;
		one->in_hand = chance(3) == 0 ? 0 : (int64_t)chance(2000);
		if (chance(2) == 0)
			one->weight = (double)chance(1000) / (double)(1 + chance(10));
		give_labels(one, chance(4));
	}
}

/* The same without node `gone`. */
static inline void
picture_without(struct picture *out, const struct picture *p, size_t gone)
{
	*out = *p;
	out->c.nodes = out->node;
	out->c.n_nodes--;
	memmove(&out->node[gone], &out->node[gone + 1], (out->c.n_nodes - gone) * sizeof out->node[0]);
}

static inline struct strategy *
open_strategy(const char *name, const char *options)
{
	struct strategy *s = NULL;
	struct err err = {0};

	if (strategy_open(name, options, &s, &err) != RC_OK)
		fail_msg("%s", err.text);
	return s;
}

static inline size_t
set_count(const struct pgrab_shard_set *set)
{
	size_t n = 0;

	for (size_t w = 0; w < PGRAB_SHARD_SET_WORDS; w++)
		n += (size_t)__builtin_popcountll(set->word[w]);
	return n;
}
