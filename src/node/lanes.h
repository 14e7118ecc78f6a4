/*
 * What a loader reads: the lanes of the due index that this node may run, and in each the shards
 * that are its own.
 *
 * The strategy divides each lane among the nodes that can run its tasks, so that no node owns what it cannot
 * run, and what only some can run is owned by one of them.  For each shard of a lane there is a low-water
 * mark: how far it was read and taken.
 *
 * Owned by the loader's thread; no connection, no clock.
 */
#ifndef PGRAB_NODE_LANES_H
#define PGRAB_NODE_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/store_task.h"
#include "pgrab/strategy.h"

struct strategy;

struct lane {
	const struct lane_row *row; /* borrowed */
	bool backlog;               /* the last look found as many due as there was room for */
	int64_t room;               /* by that look, for what is due */
	struct pgrab_shard_set own;
	uint16_t shard[PGRAB_SHARDS]; /* own ones that are this loader's */
	size_t n_shards;
	size_t turn;                /* where the next look begins in shard */
	int64_t mark[PGRAB_SHARDS]; /* by shard number; LOOK_NO_MARK: from the beginning */
};

struct lanes {
	struct lane *item; /* the most important band first */
	size_t count;
	size_t turn;             /* where the next look begins, when not all fit into it */
	unsigned index, loaders; /* shards are dealt among the loaders of a node */
};

void lanes_init(struct lanes *ls, unsigned index, unsigned loaders);
void lanes_fini(struct lanes *ls);

/* Takes over which lanes there are and who is able to run each, in rows that outlive them; marks are
 * forgotten.  busy: which nodes of c are (NULL: none); their shards also belong to those that are not,
 * divided as if the busy ones were absent. */
void lanes_refresh(struct lanes *ls, const struct lane_row *rows, size_t n, struct strategy *s,
    const struct pgrab_cluster *c, const bool *busy);

enum lanes_part {
	LANES_OWN,    /* own shards, from where the last look ended */
	LANES_RUNG,   /* those of them that rang */
	LANES_OTHERS, /* those of all other nodes */
};

/* One look reads all of them. */
bool lanes_fit(const struct lanes *ls);

/* What to look at, into q->lane and q->n_lanes, in memory that lives until the next call or
 * lanes_fini.  bell: for LANES_RUNG.  room: by crew; a lane whose crew has none is skipped.  timed:
 * room for what is not due yet.  chance: for LANES_OTHERS, so that nodes that steal do not meet in the
 * same shard.  A lane with a backlog is asked for as much as its crew has room for, at least for enough to
 * find the best of a few; others for what is not due yet, too. */
void lanes_part(struct lanes *ls, enum lanes_part part, const struct pgrab_shard_set *bell,
    const int64_t *room, int64_t timed, uint64_t chance, struct look_query *q);
/* The same, behind what is there already. */
void lanes_add(struct lanes *ls, enum lanes_part part, const struct pgrab_shard_set *bell,
    const int64_t *room, int64_t timed, uint64_t chance, struct look_query *q);

/* Is this shard of the lane with this number one of our own? */
bool lanes_own(const struct lanes *ls, int64_t number, unsigned shard);

/* Which crew carries out the tasks of the lane with this number?  Is there a lane of this crew? */
size_t lanes_crew(const struct lanes *ls, int64_t number);
bool lanes_has_crew(const struct lanes *ls, size_t crew);

/* Remembers how far each shard was read and taken, and where to begin next: nothing that was left
 * behind may fall below a mark.  c: in the order of the look. */
void lanes_progress(struct lanes *ls, const struct candidate *c, size_t n);

#endif
