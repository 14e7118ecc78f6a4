/* The immutable picture of the cluster that strategies see, built by the heartbeat thread and read by the
 * others.  Counted references: the heartbeat publishes a new one, readers keep the old as long as they need
 * it. */
#pragma once

#include <pthread.h>

#include "core/member.h"
#include "pgrab/strategy.h"

struct cluster {
	struct pgrab_cluster view;
	struct pgrab_node *node;
	bool *busy;     /* per node: it is busy, so others take what is due in its shards */
	int *from_band; /* per node: the lowest band of priorities that it takes */
	/* Those of view that take all that this node takes, so that it may leave work to them. */
	struct pgrab_cluster peers;
	struct pgrab_node *peer; /* what they point to is node's */
	uint64_t left;           /* as of members */
	unsigned refs;           /* guarded by the slot's lock */
};

/* From the live members and this node (self_id), which counts as live, whatever it has read about itself,
 * unless it drains.  One reference for the caller. */
struct cluster *cluster_build(const struct members *m, int64_t self_id, bool self_draining);

/* Same nodes, weights, labels, slots and bands, and nobody was heard to leave meanwhile, who may be back?
 * (in_hand and work change all the time and do not count.) */
bool cluster_same_shape(const struct cluster *a, const struct cluster *b);

/* For two of the same shape: is each node as fit?  Are the same nodes busy? */
bool cluster_same_fitness(const struct cluster *a, const struct cluster *b);
bool cluster_same_busy(const struct cluster *a, const struct cluster *b);
/* Is there another node that is not busy, and takes all that we take? */
bool cluster_has_free(const struct cluster *c);

/* Holds the current picture.  Embedded; any thread. */
struct cluster_slot {
	pthread_mutex_t lock;
	struct cluster *current;
};
void cluster_slot_init(struct cluster_slot *s);
void cluster_slot_fini(struct cluster_slot *s);
void cluster_slot_set(struct cluster_slot *s, struct cluster *c); /* takes the caller's reference */
struct cluster *cluster_slot_get(struct cluster_slot *s); /* NULL before the first set; give back with put */
void cluster_put(struct cluster_slot *s, struct cluster *c); /* NULL is fine */
