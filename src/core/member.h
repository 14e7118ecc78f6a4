/*
 * What one node knows of the others, from reading pgrab.node again and again: who is alive for
 * the strategy, who is dead.
 *
 * No time stamp of another machine is ever compared.  A node is judged by its `beat` counter: how long has
 * this one, on its own monotonic clock and while it could read, seen it unchanged?  Time in which it could
 * not read does not count, nor does what was before a restart of the server, so neither an outage of the
 * database nor a freeze of this node makes others look dead.
 * (The idea: lease by observed record version, as in Amazon's DynamoDB lock client.)
 *
 * Pure: no I/O, no threads.  Owned by the heartbeat thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/netstr.h"
#include "core/work.h"

/* One row of pgrab.node as read. */
struct member_row {
	int64_t id;
	const char *name;
	int64_t incarnation;
	int64_t beat;
	double weight;
	int64_t slots;
	int64_t in_hand;
	bool draining;
	bool busy;            /* none of its workers has been free for a while */
	const char *labels;   /* netstrings, "" = none */
	int64_t heartbeat_us; /* how often it intends to beat */
	/* Its own setting counts, because it is the one that it fences itself in time for. */
	int64_t dead_after_us;
	int64_t server_life;           /* of its beat; 0: its runs outlast no restart of the server */
	int64_t fitness;               /* per cent; 0: it has said none */
	const char *work;              /* see core/work.h; "": nothing, or it does not say */
	int32_t cpu_free, memory_free; /* per cent; -1: not known */
	int from_band;                 /* the lowest band of priorities that it takes */
};

struct member {
	int64_t id;
	char *name;
	int64_t incarnation;
	int64_t beat;
	double weight;
	int64_t slots;
	int64_t in_hand;
	bool draining;
	bool busy;
	struct pairs labels;
	int64_t fitness;
	struct work work;
	int32_t cpu_free, memory_free;
	int from_band;
	int64_t heartbeat_us;
	int64_t dead_after_us; /* longer if its runs outlast a restart; see lease_dead_us() */
	int64_t silent_us;     /* how long its beat has been seen unchanged, */
	int64_t life;          /* in this life of the server */
};

struct members {
	struct member *item; /* by id, ascending */
	size_t count;
	int64_t last_look_us; /* 0: never looked */
	int64_t life;         /* of the server, at the last look */
	bool pooled;          /* nodes are declared dead through a pooler */
	int64_t max_gap_us;   /* a longer time between two looks says nothing about anybody */
	uint64_t left;        /* how many were heard to leave: one may be back with the next reading */
};

void members_init(struct members *m, int64_t max_gap_us);
void members_fini(struct members *m);

/* Takes in one complete reading (rows sorted by id), made in this life of the server at now_us
 * (clock_mono_us). */
void
members_observe(struct members *m, const struct member_row *rows, size_t n, int64_t life, int64_t now_us);

/* What the others are told of a node at once.  LEAVES: it takes nothing new, or has died. */
enum member_news { MEMBER_BUSY, MEMBER_LEAVES };

/* Notes that a node is busy, or leaves, as was told since the last reading; the next one says whether it is
 * still so.  False: we knew that, or do not know the node. */
bool members_hear(struct members *m, int64_t id, enum member_news news);

/* Fit to own shards: it has beaten within 2.5 of its own heartbeats (3.5 with nothing in hand, when it beats
 * half as often) and is not draining. */
bool member_live(const struct member *m);
/* Silent for its dead_after: its tasks may be taken. */
bool member_dead(const struct member *m);
