/*
 * What a loader reads: the lanes of the due index that this node may run, and in each the shards
 * that are its own.
 *
 * The strategy divides each lane among the nodes that can run its tasks, so that no node owns what it cannot
 * run, and what only some can run is owned by one of them.  For each shard of a lane there is a low-water
 * mark: how far it was read and taken.
 *
 * Of many lanes not all shards are read: a survey says now and then which of them hold something that is due
 * before the next survey, or soon after it.
 *
 * Owned by the loader's thread; no connection, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "db/store_task.h"
#include "pgrab/strategy.h"

struct strategy;

/* What one look reads at most: shards of lanes; what is beyond it has its turn in the next one. */
#define LANES_PROBES_MAX 65536

struct lane {
	const struct lane_row *row; /* borrowed */
	bool backlog;               /* the last look found as many due as there was room for, or was filled */
	bool dry;                   /* that look found nothing at all */
	int64_t room;               /* by that look, for what is due */
	struct pgrab_shard_set own;
	struct pgrab_shard_set soon;  /* of many lanes: what a survey or look has found; at first all */
	uint16_t shard[PGRAB_SHARDS]; /* own ones that are this loader's */
	size_t n_shards;
	size_t turn;                /* where the next look begins in shard */
	int64_t mark[PGRAB_SHARDS]; /* by shard number; LOOK_NO_MARK: from the beginning */
	struct watch {
		size_t first, size; /* one look reads the shards of others among so many from first on */
		bool read;          /* it has, since that changed */
	} watch;
	struct turns {
		bool asked;                    /* in the last look */
		char after[SHARE_KEY_MAX + 1]; /* the key that had its turn last */
		int64_t each;                  /* rows of a key in one turn */
		unsigned spared;               /* looks without turns, because one key is alone */
		int64_t head_us, round_us;     /* the oldest due time of the last round, and of this one */
		int64_t given_us;              /* the last that was given by turns_place() */
	} turns;
};

struct lanes {
	struct lane *item;       /* the most important band first */
	struct lane **by_number; /* the same by row->lane */
	size_t count;
	size_t turn;                  /* where the next look begins, when not all fit into it */
	size_t survey_turn;           /* where the next survey begins, when not all fit into it */
	bool fit;                     /* one look reads all that there is to read */
	bool spare;                   /* what is dry is left out of a look at our own */
	struct pgrab_shard_set again; /* shards of others to be read whichever are watched now */
	unsigned index, loaders;      /* shards are dealt among the loaders of a node */
	/* by crew: how many large tasks may be taken that do not fit; borrowed, NULL: none */
	const int64_t *large;
};

void lanes_init(struct lanes *ls, unsigned index, unsigned loaders);
void lanes_fini(struct lanes *ls);

/* Takes over which lanes there are and who is able to run each, in rows that outlive them (those of before
 * are there still); marks are forgotten.  busy: which nodes of c are (NULL: none); their shards also belong
 * to those that are not, divided as if the busy ones were absent. */
void lanes_refresh(struct lanes *ls, const struct lane_row *rows, size_t n, struct strategy *s,
    const struct pgrab_cluster *c, const bool *busy);

enum lanes_part {
	LANES_OWN,    /* own shards, from where the last look ended */
	LANES_RUNG,   /* those of them that rang */
	LANES_OTHERS, /* those of other nodes that are watched now, or to be read again */
	LANES_URGENT, /* all, of what is important enough that a run gives way: lanes_urgent() */
};

/* Once their rows are known.  The lane with this number, or NULL. */
void lanes_index(struct lanes *ls);
struct lane *lanes_find(const struct lanes *ls, int64_t number);

/* Are there so many that they are surveyed? */
bool lanes_many(const struct lanes *ls);
/* One look reads all that there is to read. */
bool lanes_fit(const struct lanes *ls);

/* What surveys said of the lanes that were there before, and whose turn it is; where new ones are empty is
 * not known. */
void lanes_carry_over(struct lanes *ls, const struct lanes *before);

/* The keys of the lanes that are next in a survey, at most SURVEY_STEPS; returns how many. */
size_t lanes_to_survey(const struct lanes *ls, const char **keys);
/* What it found in the first n of them.  True: all lanes have been surveyed once more. */
bool lanes_surveyed(struct lanes *ls, const struct pgrab_shard_set *soon, size_t n);
/* What a look has found is read again, until a survey says otherwise.  c: in the order of the look. */
void lanes_found(struct lanes *ls, const struct candidate *c, size_t n);

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

/* The next look at the shards of others reads the next ones, in each lane of which these were read. */
void lanes_watch_next(struct lanes *ls);

/* shards.c: what a look reads of a lane, into out[PGRAB_SHARDS]; each returns how many.  lane_watch: how many
 * shards of others are watched at a time, depending on how many nodes are able, and from where on, by the
 * number of our node.  watch_rounds: in how many looks one of so many nodes has read all of them. */
void lane_watch(struct lane *l, const struct pgrab_cluster *able, int64_t node_id);
int64_t watch_rounds(size_t nodes);
size_t lane_own_shards(const struct lanes *ls, const struct lane *l, uint16_t *out);
size_t lane_rung_shards(const struct lane *l, const struct pgrab_shard_set *bell, uint16_t *out);
size_t lane_watched_shards(const struct lanes *ls, const struct lane *l, uint64_t chance, uint16_t *out);
size_t lane_all_shards(const struct lanes *ls, const struct lane *l, uint64_t chance, uint16_t *out);

/* Of all shards what is of from_band or more, by crew, and no more of it than room says. */
void lanes_urgent(
    struct lanes *ls, const int64_t *room, const int *from_band, uint64_t chance, struct look_query *q);

/* turns.c: a lane with a backlog, whose share keys take turns.  Asks for as many rows as there is room for,
 * from the key on whose turn it is; gives what was found (c[0..n), of this lane) ages by which it waits for
 * workers in the order of turns; and notes how far that look has come.  turns_worthwhile: once for each
 * look.  turns_behind: ages for what a look without turns has found; none is before what had its turn. */
bool turns_worthwhile(struct lane *l);
void turns_ask(struct lane *l, struct look_lane *to);
void turns_place(struct lane *l, const struct look_lane *asked, struct candidate *c, size_t n);
void turns_behind(const struct lane *l, struct candidate *c, size_t n);
void turns_taken(struct lane *l, const struct look_lane *asked);

/* Is this shard of the lane with this number one of our own? */
bool lanes_own(const struct lanes *ls, int64_t number, unsigned shard);

/* How long behind their time may the tasks of this lane be taken here?  fallback: where no other node is
 * preferred. */
int64_t lanes_late_us(const struct lanes *ls, int64_t number, int64_t fallback);

/* What each task of this lane takes.  Is a node beside this one able to run them? */
struct need lanes_need(const struct lanes *ls, int64_t number);
/* May a large task be taken although it does not fit? */
bool lanes_any_large(const struct lanes *ls);
bool lanes_others_able(const struct lanes *ls, int64_t number);

/* Which crew carries out the tasks of the lane with this number?  Is there a lane of this crew? */
size_t lanes_crew(const struct lanes *ls, int64_t number);
bool lanes_has_crew(const struct lanes *ls, size_t crew);

/* Remembers how far each shard was read and taken, whose turn it is, and where to begin next: nothing that
 * was left behind may fall below a mark.  c: in the order of the look q. */
void lanes_progress(struct lanes *ls, const struct look_query *q, const struct candidate *c, size_t n);
