/*
 * What the threads of a node share: settings, the lease, who we are, the picture of the cluster, counters,
 * and the channels between them.  Everything else belongs to one thread.
 *
 *     loader ---> boss ---> starter ---> workers or pools ---> finisher ---> boss
 *                   \______ (begun at once) ___/
 *
 * They are started and stopped in node.c: start_threads() and stop_threads() have the order and its reasons.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/mailbox.h"
#include "base/texts.h"
#include "base/thread.h"
#include "core/cluster.h"
#include "core/lease.h"
#include "core/run.h"
#include "db/pg.h"
#include "db/store.h"
#include "exec/bounds.h"
#include "exec/exec.h"
#include "node/boss/boss.h"
#include "node/doubts.h"
#include "node/health.h"
#include "node/runs/achieved.h"
#include "node/runs/live.h"
#include "node/owners/owners.h"
#include "node/settings/settings.h"

struct boss;
struct handlers;
struct http_crew;
struct keeper;
struct recover;

/* Client-side deadline of a call, except for heartbeats (which use half of fence_after). */
#define CALL_TIMEOUT_US (10 * US_PER_S)

struct node {
	/* constant after start */
	const struct settings *set;
	const struct store *store; /* PostgreSQL; the threads above ask it through this table only */
	char *kinds;               /* array text of what may be claimed here; of these: */
	char *handled;             /* those that crews beside the workers carry out */
	char *at_once;             /* those and the instant ones */
	char *room;                /* JSON object: how many slots there are for each kind in handled */
	struct owners owners;
	struct exec_set *execs;
	struct exec_env exec_env;
	struct bounds_list bounds; /* by owner */
	struct keeper *keeper;
	int will_fd; /* what the keeper needs to report our death; see farewell.h */

	/* what a HUP may change (reload.h): by the main thread, read by all */
	_Atomic(const char *) labels; /* JSON */
	struct texts own_labels;      /* all that there were: a thread may still read them */
	_Atomic double weight;
	_Atomic int64_t workers;
	_Atomic bool untold; /* the database does not know yet; the heartbeat tells it */

	/* written by the heartbeat, read by all */
	_Atomic(const char *) override; /* labels that count instead; NULL: ours do */
	struct texts overrides;         /* all that there were; only for the heartbeat */
	struct lease lease;
	_Atomic int64_t node_id;
	/* 0: fenced, or not registered: nothing may be claimed, started or finished */
	_Atomic int64_t incarnation;
	struct cluster_slot cluster;
	/* key of the server that the heartbeat speaks with, to which the other connections keep; 0: any */
	_Atomic uint64_t server;

	/* flags and counters: any thread */
	_Atomic bool leaving; /* it is stopping */
	_Atomic bool planned; /* something in hand is not due yet; by the boss */
	_Atomic bool drained; /* a person wants it to take nothing new; by the heartbeat */
	_Atomic bool durable; /* at_most_once may be run here */
	struct health health;
	_Atomic int unsure;    /* loaders that look up what a claim has taken, until the boss has it */
	_Atomic int64_t ended; /* runs in the finisher's hands; up by the workers, down by the finisher */
	/* a task started by its claim finds a worker within milliseconds; by the boss */
	_Atomic bool worker_soon;
	/* loaders that left tasks of this crew behind, or skipped them for lack of room */
	_Atomic int wanting[CREWS_MAX];
	_Atomic int wanting_more[CREWS_MAX]; /* those that left only what needs more room than there was */
	/* a large run was handed back: until then (clock_mono_us) none is claimed that does not fit; by the
	 * boss */
	_Atomic int64_t rests_until_us[CREWS_MAX];
	_Atomic bool busy;              /* no worker has been free for a while; by the boss */
	_Atomic bool helped;            /* another node has a free one, it seems; by the heartbeat */
	_Atomic unsigned hungry;        /* loaders that want no bell: they look again soon by themselves */
	_Atomic bool bell_written;      /* what pgrab.node.bell says */
	_Atomic int64_t order_ahead_us; /* the database's clock - clock_mono_us, for order; 0: not known */
	_Atomic unsigned bell_times;    /* how often it may have begun, or ceased, to say so */
	_Atomic bool bell_heard;        /* the doorbell is listened to; by control */
	_Atomic int64_t in_hand;        /* written by the boss */
	_Atomic int64_t idle_us;        /* when it last had no work left, by the boss; or registered */
	/* by crew: how many slots it has, by the boss; and how many are in use, by the crew */
	_Atomic int64_t slots[CREWS_MAX], running[CREWS_MAX];
	_Atomic int64_t memory_used;         /* bytes, by the limits of what has been started; by the boss */
	_Atomic int64_t count[COUNT__COUNT]; /* since the last heartbeat that went through */

	struct holds holds;   /* what the claims of this node took, until it is over */
	struct doubts doubts; /* tasks that the server does not answer for */

	struct gate stop_now; /* stopped when the node is to stop at once: nobody pauses any more */

	/* channels.  What may be in them is bounded by the room the boss grants. */
	struct boss *boss;
	struct mailbox *start_queue; /* boss -> starter */
	/* starter, boss -> workers: one message is one unit, a run or a chain (place.unit): of instant runs,
	 * or of sql runs that may be one transaction */
	struct mailbox *run_queue;
	struct handlers *handlers;    /* starter -> pools of handler processes; NULL: there are none */
	struct http_crew *http_crew;  /* starter -> the thread of kind http; NULL: it is not run here */
	struct mailbox *finish_queue; /* workers, pools -> finisher */
	struct mailbox *back_queue;   /* starter -> heartbeat: copies of what the starter cannot hand back */
	struct recover *recover;

	struct achieved achieved;
	struct lives lives; /* what the runs show; see live.h */
	struct teller *teller;
};

static inline void
node_count(struct node *n, int what, int64_t add)
{
	atomic_fetch_add_explicit(&n->count[what], add, memory_order_relaxed);
}

static inline int64_t
node_running(const struct node *n)
{
	int64_t sum = 0;

	for (size_t i = 0; i < CREWS_MAX; i++)
		sum += atomic_load(&n->running[i]);
	return sum;
}

static inline bool
node_draining(const struct node *n)
{
	return atomic_load(&n->leaving) || atomic_load(&n->drained);
}

/* May a run of this incarnation go on?  Checked before anything is executed and before any result is used. */
static inline bool
node_may_act(const struct node *n, int64_t incarnation, int64_t now_boot_us)
{
	return incarnation != 0 && atomic_load(&n->incarnation) == incarnation &&
	       lease_holds(&n->lease, now_boot_us);
}

static inline struct ability
node_ability(const struct node *n)
{
	const char *override = atomic_load(&n->override);

	return (struct ability){.kinds = n->kinds,
	    .labels = override != NULL ? override : atomic_load(&n->labels),
	    .owners = owners_all(&n->owners),
	    .bounds = n->owners.bounds,
	    .from_band = n->set->min_priority + 1,
	    .room = n->room,
	    .workers = atomic_load(&n->workers),
	    .memory = n->set->memory_bytes};
}

/* The heartbeat speaks with this server (0: with none).  True: it was another one before. */
bool node_server(struct node *n, uint64_t key);

/* A connection for a thread of this node, named for pg_stat_activity. */
struct db *node_db(const struct node *n, const char *what);
