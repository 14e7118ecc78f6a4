/* The inside of a loader: loader.c is the thread, look.c what it does when it wakes up, lanes.c which lanes
 * and shards it reads, choice.c and claim.c what it takes, loaders.c all of a node. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"
#include "core/backoff.h"
#include "db/store.h"
#include "node/boss/boss.h"
#include "node/doubts.h"
#include "node/lanes/lanes.h"
#include "pgrab/strategy.h"

/* A node that has found nothing for a while, and hears its doorbell, looks only this often: an INSERT of a
 * task that is due before the look after the next rings (see task_inserted). */
#define QUIET_POLL_US (10 * US_PER_S)

/* What finds too little room is taken all the same when it is so much behind its time, and where others are
 * able to run it, steal_after more: from then on the boss keeps free what it needs. */
#define LARGE_LATE_US US_PER_S

struct cluster;
struct loaders;
struct node;
struct strategy;

struct loader {
	struct node *node; /* borrowed */
	pthread_t thread;
	unsigned index; /* of node->set->loaders: shards are dealt among them */
	struct gate gate;

	/* shared, under bell_lock */
	pthread_mutex_t bell_lock;
	struct pgrab_shard_set bell; /* shards that rang */
	bool bell_all;
	bool bell_lanes; /* a new lane rang */
	bool bell_rang;  /* something rang */
	bool bell_many;  /* for more shards than it named */

	/* owned by the thread */
	struct one_thread only;
	int64_t next_us; /* when to look, if nothing rings */
	const struct store *store;
	struct db *db;
	struct strategy *strategy;
	struct backoff backoff;
	struct sifter sifter, settler; /* of claims, of misfires */
	struct cluster *cluster;       /* a reference, or NULL */
	struct pgrab_shard_set own;    /* of a lane that everybody can run; for pgrab.ownership */
	struct lanes lanes;
	struct lane_row *lane_rows; /* what they were made of */
	size_t n_lane_rows;
	char *lanes_print;       /* of the answer they are from; NULL: they are asked for again; owned */
	int64_t anew_lanes_us;   /* when that is done whatever the print says */
	int64_t surveyed_us;     /* the end of the last survey; 0: none */
	int64_t survey_pause_us; /* at least, between two */
	int64_t survey_began_us, survey_cycle_us; /* from lane 0 on; how long all lanes took the last time */
	bool survey_soon;                         /* what it says may not be true any more */
	struct look_query query;                  /* its lanes are used again */
	int64_t next_lanes_us;                    /* when to ask which lanes there are */
	/* The database's clock - clock_mono_us, as the last look that found something says: never too much,
	 * and too little by what the look took. */
	int64_t ahead_us;
	int64_t found_us; /* when a look last found something to take, or something rang */
	/* When all is looked at anew, whatever wakes us before: something that a look has seen may be taken
	 * then, or the last look at everything reached no further.  INT64_MAX: neither. */
	int64_t anew_us;
	char *unheard;        /* by store_unheard, as of heard_times; NULL: not asked; owned */
	unsigned heard_times; /* of node->bell_times */
	bool quiet;
	int64_t next_full_us;
	/* By crew: only the lanes of those that have room are looked at. */
	int64_t next_steal_us[CREWS_MAX];
	int64_t watched_us;      /* when a steal last went on to other shards */
	int64_t again_until_us;  /* until when what is in lanes.again may be taken */
	int64_t next_urgent_us;  /* when to look for what a run gives way to */
	int64_t next_durable_us; /* when to ask whether at_most_once may be run here */
	int64_t dry_until_us;    /* while looks follow each other: when to read lanes again that were dry */
	int64_t retry_us;        /* after a vain answer: not before this */
	int64_t looked_us;       /* when the last look had ended */
	int64_t echo_us;         /* the next look without a bell */
	int64_t echo_gap_us;     /* to the one after it, half; no less than poll: there is none */
	int64_t published;       /* incarnation under which pgrab.node says what own says; 0: none */
	bool hungry;             /* the last look left rows behind */
	bool for_now;            /* the last look found something for now */
	bool steady;             /* looks find something often: we look once in a gap */
	bool deaf;               /* hungry or steady: we look again soon by ourselves */
	int finds;               /* how often lately; as many as make us steady at most */
	int64_t noted_us;        /* when it was last counted */
	bool moved;              /* it changed something, so another one finds other rows */
	/* By crew: its tasks were left behind, or skipped for lack of room. */
	bool wants[CREWS_MAX], wants_more[CREWS_MAX]; /* more: for one that needs more room than there was */
	bool said[CREWS_MAX], said_more[CREWS_MAX];
	/* A claim met rows that another session has locked: until then such rows are skipped, and for twice
	 * as long each time the lock is still there after that.  0: nothing is locked. */
	int64_t contended_until_us, contended_for_us;
	int64_t contended_said_us; /* 0: never */
};

/* Why the loader is awake, with what room, and with what result. */
struct wakeup {
	bool only_rung; /* nothing but these shards */
	const struct pgrab_shard_set *bell;
	int64_t now;       /* clock_mono_us */
	struct room taken; /* from the boss, to be given back */
	struct room room;  /* as much of it as the strategy lets us fill */
	bool more;         /* out: rows were left behind */
	bool spared;       /* out: without the lanes that were dry */
	bool looked;       /* out: in our own shards, or those that rang of them */
	bool found;        /* out: and there was something for now */
};

/* loaders.c: one of them. */
struct loader *loaders_at(struct loaders *ls, size_t i);

/* qsort's: by id, the lock order. */
int loader_by_id(const void *a, const void *b);

/* Sets ->refused on what is due later than lookahead, or may be taken only later because it prefers other
 * nodes; ->held on what needs more room than there is; returns how long until the first of these may be
 * taken, or INT64_MAX. */
int64_t loader_put_off(struct loader *l, struct candidate *c, size_t n, const struct room *room);
/* Sets ->chosen on what the strategy accepts and the room allows, the best first; ->refused on what is not
 * for this node, or not to be claimed as it is (then ->misfired stays set).  Returns how many are chosen. */
size_t loader_choose(struct loader *l, enum lanes_part part, struct candidate *c, size_t n, struct room room);
/* Settles what has misfired of these, except rows that another session has locked. */
enum rc loader_settle_misfires(
    struct loader *l, const struct candidate *c, size_t n, int64_t *settled_out, struct err *err);
/* What is started with its claim: nothing, where the boss says when; what a pool has room for, and what is
 * instant if a worker is free soon; or all that is due, because there are workers for it. */
enum beginning { BEGIN_NONE, BEGIN_SOME, BEGIN_ALL };
/* Claims n candidates, sorted by id, for the boss, who gets the runs won after each statement.  Returns how
 * many. */
size_t loader_claim(struct loader *l, int64_t incarnation, const struct candidate *c, size_t n,
    enum beginning begin, bool stolen);
/* After a look that has found something, and before that is claimed: what is due is ordered by one difference
 * of the clocks, node->order_ahead_us.  By that of each look, what a slow one has found would be behind all
 * that others find after it, as long as there is more of the same age. */
void loader_note_clock(struct loader *l);
/* How many of the n candidates are due, and for the worker threads? */
int64_t loader_for_workers(const struct loader *l, const struct candidate *c, size_t n);

/* Is anything due that could be taken, and was not, among what the look found or beyond it (a lane or shard
 * that gave all that it was asked for may have more)?  Notes whose. */
bool loader_left_behind(struct loader *l, const struct candidate *c, size_t n);
/* Does another look find other rows, or are these all of crews without room, or misfired? */
bool loader_moved(const struct loader *l, const struct candidate *c, size_t n, struct room room);
/* Moves the chosen to the front, sorted by id, the large ones last.  Returns how many are not large. */
size_t loader_keep_chosen(struct candidate *c, size_t n);

/* loader.c: the thread, and one round of it: waits for a bell, room or a poll, and
 * looks.  False: it was stopped. */
void *loader_main(void *arg);
bool loader_round(struct loader *l);
void loader_end(struct loader *l); /* what is left to say after the last round */
void loader_expect_echoes(struct loader *l);

/* look.c.  In what time has a node with nothing else to do read the shards of all others? */
int64_t loader_round_us(const struct loader *l);
/* Looks in our own shards and, when nothing is left there, in those of others. */
enum rc loader_look(struct loader *l, struct wakeup *w, struct err *err);

/* lanes.c.  The newest picture of the cluster; on a new shape the strategy is asked which shards are ours. */
void loader_refresh_cluster(struct loader *l);
/* Which lanes there are for us, and who shares each with us. */
enum rc loader_refresh_lanes(struct loader *l, struct err *err);
/* Where there are many lanes, and it is time: in which shards something is due soon. */
enum rc loader_survey(struct loader *l, struct err *err);
int64_t loader_next_survey(const struct loader *l); /* INT64_MAX: there are not that many */
bool loader_any_rang(const struct wakeup *w);       /* did a shard ring, whatever else woke us? */
/* Before a look at our own shards: are lanes left out in which one found nothing?  After it, when it was at
 * all of them: until when they are. */
void loader_spare_dry(struct loader *l, const struct wakeup *w);
void loader_note_dry(struct loader *l, const struct wakeup *w);
/* For people: pgrab.ownership.  What does not go through is tried again after the next wake-up. */
void loader_publish_shards(struct loader *l);
