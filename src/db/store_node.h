/* The node's own row, and those of the others.  enum rc: as db_query. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"
#include "core/member.h"
#include "db/pg.h"
#include "pgrab/strategy.h"

/* What is in pgrab.node for as long as the incarnation lives. */
struct node_identity {
	const char *name, *host, *version, *strategy;
	const char *labels; /* JSON object */
	const char *kinds;  /* array text */
	const char *owners; /* array text: for whom it can log in, besides its own role */
	const char *bounds; /* JSON object, as pgrab.node.bounds */
	const char *users;  /* likewise */
	int64_t pid, slots, heartbeat_us, dead_after_us;
	int64_t from_band; /* the lowest band of priorities that it takes */
	const char *room;  /* JSON object, as struct ability's; likewise these: */
	int64_t workers, memory;
	double weight;
};

/* The row that has a name now. */
struct node_holder {
	bool exists;
	bool down;
	int64_t id, incarnation, beat, dead_after_us;
	int64_t life, now; /* of the server: of its last beat (0: it outlasts none), and this one */
	char host[256];
	int64_t pid;
};

CHECKED enum rc store_node_find(struct db *db, const char *name, struct node_holder *out, struct err *err);

/* A new incarnation, in place of `holder` exactly as it was seen (or of nobody).  RC_LOST: it changed
 * meanwhile.  On RC_UNKNOWN ask store_node_find: the row says whose incarnation it is. */
CHECKED enum rc store_node_register(struct db *db, const struct node_identity *who, int64_t incarnation,
    const struct node_holder *holder, int64_t *id_out, struct err *err);

/* What the sql runs of an incarnation prove themselves with; before it registers.  May be repeated. */
CHECKED enum rc store_run_key(struct db *db, int64_t incarnation, struct err *err);

/* Who we are to the server. */
struct login {
	char role[64]; /* session_user */
	char database[64];
	bool superuser;
	int64_t pid;    /* of the server's process */
	char since[48]; /* a moment at which it existed, on the server's clock */
};
CHECKED enum rc store_login(struct db *db, struct login *out, struct err *err);

/* Kinds of plugged-in executors, and of handler processes: arrays as text. */
CHECKED enum rc store_node_kinds(
    struct db *db, const char *kinds, const char *summaries, const char *handled, struct err *err);

/* The state of this node's pools: a JSON array, see pgrab_internal.pools_announce(). */
CHECKED enum rc store_node_pools(struct db *db, int64_t node_id, const char *pools, struct err *err);

/* What a node counts.  In this order in pgrab.beat.counts, and so is the next in pgrab.beat.gauges; the view
 * pgrab.node gives them their names.  A new one goes to the end. */
enum node_count {
	COUNT_ATTEMPTED,
	COUNT_WON,
	COUNT_LOST,
	COUNT_STOLEN,
	COUNT_STARTED,
	COUNT_SUCCEEDED,
	COUNT_FAILED,
	COUNT_STALE,
	COUNT_FENCES,
	COUNT_RECOVERED,
	COUNT_KEEPERS_LOST,
	COUNT_LOG_DROPPED,
	COUNT__COUNT
};

/* The state of a node at a heartbeat. */
enum node_gauge {
	GAUGE_IN_HAND,
	GAUGE_RUNNING,
	GAUGE_TO_START,
	GAUGE_TO_RUN,
	GAUGE_TO_FINISH,
	GAUGE_CHILDREN,
	GAUGE_CONNECTIONS,
	GAUGE_LEASE_LEFT, /* us */
	GAUGE_ROUND_TRIP, /* us, of the heartbeat before; 0: there was none */
	GAUGE_CPU_FREE,   /* per cent; -1: not known */
	GAUGE_MEMORY_FREE,
	GAUGE_FITNESS, /* 0: its strategy does not say */
	GAUGE_MEMORY_USED,
	GAUGE__COUNT
};

/* Weight, labels, slots and workers of `now`.  *told_out false: nothing was written, because the row is
 * locked or another incarnation's. */
CHECKED enum rc store_node_change(struct db *db, int64_t node_id, int64_t incarnation,
    const struct node_identity *now, bool *told_out, struct err *err);

/* Can our runs outlast this life of the server?  Where what it acknowledges is durable; or also where an
 * asynchronous standby may lack it. */
enum outlast { OUTLAST_NO, OUTLAST_DURABLE, OUTLAST_ASYNC };

struct node_beat {
	int64_t node_id, incarnation;
	enum outlast outlast;
	bool outlasts; /* they do: others will wait for longer */
	bool draining, bell, busy, ill;
	int64_t gauge[GAUGE__COUNT];
	int64_t add[COUNT__COUNT]; /* since the last beat that went through */
	const char *crews;         /* JSON, see pgrab.beat.crews; borrowed */
	const char *doubts;        /* an array, see pgrab.beat.doubts; borrowed; NULL: none */
	const char *why, *work;    /* as pgrab.beat.fitness_why and .work; borrowed; NULL: none */
};

/* What people want of this node, as its row said at the last beat; and what the server says. */
#define STOPS_MAX  256 /* the others come with the next beat */
#define LABELS_MAX 4096
struct node_wishes {
	bool drain;
	bool durable;            /* what it acknowledges cannot be lost, as far as `outlast` asks */
	bool outputs;            /* a person has asked for the output of runs of ours */
	char labels[LABELS_MAX]; /* JSON, instead of our own; "": ours count */
	size_t n_stops;
	struct {
		int64_t id, version;
	} stop[STOPS_MAX];
};

/* RC_LOST: the row is no longer ours: fenced.  *wishes is filled with RC_OK.  others: takes in a reading of
 * all nodes as well; may be NULL. */
CHECKED enum rc store_node_beat(struct db *db, const struct node_beat *b, struct node_wishes *wishes,
    struct members *others, struct err *err);

CHECKED enum rc
store_node_bell(struct db *db, int64_t node_id, int64_t incarnation, bool wanted, struct err *err);

/* Transactions that may have inserted a task without ringing, array text; of those of before (NULL: of all).
 * *out is freed by the caller, NULL unless RC_OK. */
CHECKED enum rc store_unheard(struct db *db, const char *before, char **out, struct err *err);

/* For whom the node can log in now, array text.  *told_out false: the row is another incarnation's. */
CHECKED enum rc store_node_owners(
    struct db *db, int64_t node_id, int64_t incarnation, const char *owners, bool *told_out, struct err *err);

/* What pgrab.ownership shows of this incarnation. */
CHECKED enum rc store_node_shards(struct db *db, int64_t node_id, int64_t incarnation,
    const struct pgrab_shard_set *shards, bool overlapping, struct err *err);

/* All rows that are not down, sorted by id, taken in by members_observe at the moment of the answer. */
CHECKED enum rc store_node_observe(struct db *db, struct members *m, struct err *err);

/* Marks a silent node down, if its beat is still the one that was seen, in the same life of the server, and
 * ends its sql backends.  RC_LOST: it is alive. */
CHECKED enum rc
store_node_declare_dead(struct db *db, const struct member *m, int64_t *ended_backends_out, struct err *err);

/* Is this database a copy of another one?  Its tasks are then paused until a person adopts them. */
CHECKED enum rc store_is_copy(struct db *db, bool *copy_out, struct err *err);

/* Which server answers, and on which timeline. */
struct server_mark {
	int64_t system;    /* identifier of the cluster */
	char timeline[16]; /* the one that it writes: a promotion begins a new one */
	bool sync;         /* what it acknowledges is on a standby as well */
};
CHECKED enum rc store_server_mark(struct db *db, struct server_mark *out, struct err *err);

/* Marks a node down, if this incarnation still has its row.  died: the cause, for those who want to be told;
 * NULL after an orderly stop. */
CHECKED enum rc
store_node_leave(struct db *db, int64_t node_id, int64_t incarnation, const char *died, struct err *err);

/* May at_most_once tasks be run here?  (Could a start that was acknowledged be lost?)  async_ok: a
 * standby that may lack it is accepted.  *out false: why->text says why. */
CHECKED enum rc store_durable(struct db *db, bool async_ok, bool *out, struct err *why);
