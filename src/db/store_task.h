/*
 * What the node does with tasks in the database: look, claim, start, release, finish, recover.  Each is one
 * statement for many rows; the texts are in src/db/sql.
 *
 * Lock order: rows of pgrab.task in id order (callers pass arrays sorted by id), pgrab.node before
 * pgrab.task.  Every write to a claimed task names (id, version, incarnation); a row that does not
 * match is no longer ours.  enum rc: as db_query.  After RC_UNKNOWN ask store_held or
 * store_recorded; never repeat blindly.
 *
 * A row that another session has locked (a person's open transaction) must not hold up the others: a
 * statement for many rows waits for a lock only briefly, and is then repeated for the rows that are free.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "core/run.h"
#include "db/pg.h"
#include "pgrab/strategy.h"

/* A lane that a node may run, and which nodes are able to. */
struct lane_row {
	int64_t lane;  /* number of its row */
	char *key;     /* what stands for it in the due index, bytea text; owned */
	int band;      /* of its tasks' priority */
	char *kind;    /* owned */
	size_t crew;   /* for the reader to fill in */
	int64_t *able; /* ids of nodes; the same nodes in the same order; owned */
	size_t n_able;
	bool shared;      /* its tasks take turns by share_key */
	int64_t late_us;  /* it prefers other nodes than this one, which may take its tasks so long behind
			    their time; 0: it does not */
	struct need need; /* of each of its tasks */
};
/* What a node can run; texts are borrowed. */
struct ability {
	const char *kinds;  /* array text, '{sql,noop}' */
	const char *labels; /* JSON object */
	const char *owners; /* array text: for whom it can log in */
	const char *bounds; /* JSON object, as pgrab.node.bounds */
	int from_band;      /* the lowest band of priorities that it takes */
	const char *room;   /* JSON object: how many slots there are for each kind that is not the workers' */
	int64_t workers;
	int64_t memory; /* bytes, for the limits of all runs together; 0: not counted */
};

CHECKED enum rc
store_lanes(struct db *db, const struct ability *able, struct lane_row **out, size_t *n_out, struct err *err);
void lane_rows_free(struct lane_row **rows, size_t n);

/* A text that is another one when store_lanes may have another answer; for the caller to free, NULL unless
 * RC_OK. */
CHECKED enum rc store_lanes_print(struct db *db, const struct ability *able, char **out, struct err *err);

#define SURVEY_STEPS 16384 /* of one survey; more than a lane has shards */

/* Which shards of n lanes, named by their keys, hold something due until now + ahead_us.  soon: has room for
 * n sets; *read_out: how many lanes were read, at least one. */
CHECKED enum rc store_survey(struct db *db, const char *const *keys, size_t n, int64_t ahead_us,
    struct pgrab_shard_set *soon, size_t *read_out, struct err *err);

#define LOOK_NO_MARK INT64_MIN

#define SHARE_KEY_MAX 200

/* One lane of a look, and its shards in the order in which they are read. */
struct look_lane {
	int64_t lane;
	const char *key; /* borrowed, as lane_row's */
	int band;
	const int64_t *mark; /* borrowed: low-water mark per shard number (not per position), us since 1970 */
	uint16_t shard[PGRAB_SHARDS];
	size_t n_shards;
	int64_t wanted;                /* rows, at most */
	int64_t slice;                 /* of these, of each shard; of each share_key, if they take turns */
	bool due_only;                 /* nothing that is not due yet */
	int64_t ahead_us;              /* due until now + this; negative: late by at least that much */
	int64_t late_us;               /* as lane_row's */
	bool turns;                    /* read from one share_key to the next */
	char after[SHARE_KEY_MAX + 1]; /* then, in: behind which one to go on; out: the last it came by */
	int64_t found, keys;           /* out: rows, and of how many keys */
	bool wrapped;                  /* out: it came by the last key, and began again with the first */
};

/* What a look asks for. */
struct look_query {
	struct look_lane *lane; /* owned: look_add, look_fini */
	size_t n_lanes, room;
	bool marks;     /* begin at the marks */
	bool free;      /* skip what another session has locked */
	bool unlimited; /* and what has a limit_key */
	struct ability able;
	bool once; /* may take at_most_once tasks */
};
void look_reset(struct look_query *q); /* no lanes */
/* For the lanes from this one on; where only what is due is wanted, no further than that.  soon_us: how far
 * ahead of the time at which this node may take it, where others are preferred. */
void look_ahead(struct look_query *q, size_t from, int64_t ahead_us, int64_t soon_us);
struct look_lane *
look_add(struct look_query *q, const struct lane_row *lane, const int64_t *mark); /* no shards, no rows yet */
/* The lane with this number, for which it asks.  *at: where to begin, and where it was: rows of a look come
 * in the order of its lanes, so who goes over them with one *at, 0 at first, comes by each lane once. */
const struct look_lane *look_lane_of(const struct look_query *q, int64_t lane, size_t *at);
void look_fini(struct look_query *q);

struct candidate {
	int64_t id, version;
	int64_t late_us, age_us; /* age_us: the loader's, late_us unless it takes turns */
	uint16_t shard;
	int16_t priority;
	int64_t lane;
	int band;
	int64_t due_us; /* on the database's clock, since 1970: serves as a low-water mark */
	bool has_require;
	bool misfired;        /* could not start in time, or may not now: settle it instead of claiming it */
	bool chosen, refused; /* the loader's marks; false from a look */
	bool held;            /* likewise: there is not enough room for it now */
	struct need need;     /* the loader's: what its lane says */
};

/* In the order read: by lane, shard and due; those of lanes that take turns at the end, from one key to the
 * next.  *out is freed by the caller, NULL unless RC_OK and some. */
CHECKED enum rc
store_look(struct db *db, struct look_query *q, struct candidate **out, size_t *n_out, struct err *err);

/* *now_us_out, filled with RC_OK: the database's clock at some moment since the call, us since 1970.  Waits
 * for half a second at most. */
CHECKED enum rc store_clock(struct db *db, int64_t *now_us_out, struct err *err);

/* Settles what misfired: (id, version) pairs, sorted by id.  within_us: how long to wait for an answer; 0: as
 * long as for any call.  *settled_out: tasks that were changed. */
CHECKED enum rc store_misfire(struct db *db, const struct candidate *c, size_t n, int64_t within_us,
    int64_t *settled_out, struct err *err);

struct claim {
	int64_t node_id, incarnation;
	const char *at_once; /* kinds that are started with the claim, array text */
	int64_t due_us;      /* but only those due by then; on the database's clock, since 1970 */
	bool contended;      /* in: do not wait for locked rows; out: there was one */
	struct hold *hold;   /* what is claimed is written down under its number; the runs won share it */
	const int64_t *over; /* holds of this incarnation whose rows may go */
	size_t n_over;
	int64_t within_us; /* how long to wait for an answer; 0: as long as for any call */
};

/* Claims candidates (sorted by id).  The rows won come as a chain of new runs (run_next), in no particular
 * order. */
CHECKED enum rc store_claim(struct db *db, struct claim *who, const struct candidate *c, size_t n,
    struct run **chain_out, size_t *won_out, struct err *err);

/* After store_claim was RC_UNKNOWN: the rows of these candidates that are ours. */
CHECKED enum rc store_held(struct db *db, const struct claim *who, const struct candidate *c, size_t n,
    struct run **chain_out, size_t *won_out, struct err *err);

/* Does what one node has to do for the whole cluster.  What is left to do: nothing when not RC_OK. */
struct duties_left {
	bool line;    /* tasks wait in line for a limit */
	bool orphans; /* something is held by nobody */
	bool upkeep;  /* has not been done for two hours */
	bool strays;  /* not all tasks have been looked at yet */
};
CHECKED enum rc store_duties(struct db *db, struct duties_left *left_out, struct err *err);

/* Ends what has waited in vain, some at a time.  over_out: how many; next_us_out: in what time the next wait
 * is over, 0 or less: it is; INT64_MAX: none ends. */
CHECKED enum rc store_waits(struct db *db, int64_t *over_out, int64_t *next_us_out, struct err *err);

/* Inserts alerts, for a fraction of a second.  told_out: how many notices it went through; left_out: are
 * there more? */
CHECKED enum rc store_tell(struct db *db, int64_t *told_out, bool *left_out, struct err *err);

/* Who has the runs.  contended: rows were locked lately, so none is waited for. */
struct holder {
	int64_t incarnation;
	bool contended;
	int64_t within_us; /* how long to wait for an answer; 0: as long as for any call */
};

/* The last check before execution, for runs of one incarnation, sorted by (id, version); of none: only a plan
 * is made.  Those that passed have ->started set and their definition filled in.  place.locked, here and in
 * store_release: nothing was done because another session has the row locked. */
CHECKED enum rc
store_start(struct db *db, const struct holder *who, struct run **runs, size_t n, struct err *err);
/* The same for at_most_once tasks, in a transaction that makes its own settings to be durable, if the server
 * is (*durable_out; if it is not, why->text says why, and nothing was started).  What was not acknowledged
 * must never be executed: on RC_UNKNOWN they are lost. */
CHECKED enum rc store_start_once(struct db *db, int64_t incarnation, bool async_ok, struct run **runs,
    size_t n, bool *durable_out, struct err *why);
/* After store_start was RC_UNKNOWN: the same, without starting anything. */
CHECKED enum rc
store_started(struct db *db, int64_t incarnation, struct run **runs, size_t n, struct err *err);

/* Fills in what the args of started runs name in pgrab.secret; sets ->refused of a run that names one that
 * does not exist.  No query when none is named. */
CHECKED enum rc store_secrets(struct db *db, struct run **runs, size_t n, struct err *err);

/* Hands claimed, unstarted tasks back.  (id, version) pairs of one incarnation. */
CHECKED enum rc store_release(struct db *db, const struct holder *who, struct run **runs, size_t n,
    int64_t *released_out, struct err *err);

/* One ended run.  Strings borrowed. */
struct finish {
	int64_t id, version, incarnation;
	int64_t begun_ago_us, ended_ago_us;
	enum outcome outcome;
	bool has_exit_code;
	int32_t exit_code;
	const char *error, *output; /* may be NULL */
	bool output_truncated;
	struct run_cost cost;
	int64_t retry_us; /* RETRY_DEFAULT, RETRY_NO, or the wait before the next attempt */
	bool applied;     /* out: the database has it */
	bool locked;      /* out: another session has the row locked, so nothing was done: ask again later */
	bool refused;     /* out: the server will never accept this one; the log says why */
};

struct recorder {
	int64_t node_id;
	const char *node;
	bool contended;    /* these rows were locked before: do not wait for them */
	int64_t within_us; /* how long to wait for an answer; 0: as long as for any call */
};

/* Writes outcomes and history of runs, sorted by (id, version); one that is OUTCOME_NOT_STARTED gets no
 * history.  ->applied is set for those that were still ours; the others are stale, unless store_recorded
 * knows them. */
CHECKED enum rc
store_finish(struct db *db, const struct recorder *who, struct finish *const *f, size_t n, struct err *err);

/* A run whose end the server refuses to record is parked, with the reason; with or without a row in
 * the history.  Sets ->applied. */
CHECKED enum rc store_park(struct db *db, const struct recorder *who, struct finish *f, const char *why,
    bool history, struct err *err);

/* Sets ->applied for those that are in the history. */
CHECKED enum rc store_recorded(struct db *db, struct finish *const *f, size_t n, struct err *err);

struct lost {
	int64_t incarnation;
	int64_t id; /* 0: it holds nothing, and that is to be written down */
};
/* What no node that is up holds, by (incarnation, id): of one incarnation, or of all dead ones (0).  *out
 * freed by the caller.  Ends the sql backends of dead nodes first; *kept_out could not be: what they run
 * stays. */
CHECKED enum rc store_lost(
    struct db *db, int64_t incarnation, struct lost **out, size_t *n_out, int64_t *kept_out, struct err *err);

struct recovery {
	const char *by; /* the node that does it, for the history */
	int64_t incarnation;
	const struct lost *only; /* n of them; NULL: all that it holds */
	size_t n;
	int64_t within_us; /* how long to wait for an answer; 0: as long as for any call */
};
struct recovered {
	int64_t all, running, parked; /* put back in all; of these had been running; of these parked */
};
/* Puts back what was found by store_lost. */
CHECKED enum rc
store_recover(struct db *db, const struct recovery *what, struct recovered *out, struct err *err);

/* Deletes rows of pgrab.hold, unless one of their tasks is held.  batch[0..*n): out: those that stay, or all
 * when not RC_OK. */
CHECKED enum rc
store_hold_drop(struct db *db, int64_t incarnation, int64_t *batch, size_t *n, struct err *err);

/* Rows this incarnation has held for longer than older_us, according to the database.  *out freed by the
 * caller. */

struct owned {
	int64_t id, version;
	bool running;
};
CHECKED enum rc store_own(
    struct db *db, int64_t incarnation, int64_t older_us, struct owned **out, size_t *n_out, struct err *err);

/* Makes the partitions of the coming days. */
CHECKED enum rc store_days(struct db *db, struct err *err);
/* The same; then drops old ones, and removes what else is over, which may take long. */
CHECKED enum rc store_upkeep(struct db *db, int64_t retention_us, struct err *err);
