/*
 * A task in the hands of this node, from the claim to the recorded outcome: one struct run per claim.
 *
 * It travels loader -> boss -> starter -> worker -> finisher -> boss, by mailboxes, and belongs to the thread
 * that has it; the boss made room for it and frees it.  Only `stop` and what belongs to it may be touched by
 * the boss while a worker has it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/netstr.h"
#include "base/outbuf.h"
#include "core/hold.h"
#include "pgrab/executor.h"

enum outcome {
	OUTCOME_NONE,
	OUTCOME_SUCCEEDED,
	OUTCOME_FAILED,
	OUTCOME_TIMED_OUT,
	OUTCOME_CANCELLED,
	OUTCOME_LOST,
	OUTCOME_PREEMPTED, /* stopped for more important work; goes back, and the attempt is not counted */
	OUTCOME_WAITED,    /* error: the signal, retry_us: how long; it goes on in another run */
	OUTCOME_NOT_STARTED,
	OUTCOME_AWAITS, /* its request was accepted; the answer comes later, and not to a node */
	OUTCOME__COUNT
};
const char *outcome_name(enum outcome o); /* as in pgrab.run.outcome */

/* The words that pgrab.run.outcome may have, ended by NULL; before them, "all". */
#define RUN_OUTCOMES 9
extern const char *const run_outcomes_or_all[RUN_OUTCOMES + 2];
#define run_outcomes (run_outcomes_or_all + 1)

enum run_phase {
	RUN_DELAYED, /* in the delay heap: not due yet */
	RUN_READY,   /* due, waiting for a worker */
	RUN_OUT,     /* with starter, worker or finisher */
};

/* What a message to the boss says. */
enum note_what {
	NOTE_CLAIMED, /* loader: a new run, its room was granted */
	NOTE_SETTLED, /* starter, finisher: this run is over for good */
	NOTE_BEGUN,   /* worker: the timeout counts from now */
	NOTE_IDLE,    /* worker: free again */
	NOTE_LEFT,    /* worker: a run of its unit that it has not carried out */
	NOTE_SLOTS,   /* pools: a crew has grown or shrunk */
	NOTE_GRANT,   /* loader: part of the room it took is not in flight any more */
	NOTE_COMMAND, /* control, heartbeat, recover */
};

struct note {
	struct mail mail; /* must be first */
	enum note_what what;
	struct run *run;
};

/* The room that a run takes of its node, or what is left there. */
struct need {
	int64_t slots;  /* workers, or slots of another crew */
	int64_t memory; /* bytes; 0: it does not say */
};

/* It is not held back for lack of room: one slot is all that it takes. */
static inline bool
need_is_small(const struct need *n)
{
	return n->slots == 1 && n->memory == 0;
}

static inline bool
need_fits(const struct need *n, const struct need *left)
{
	return n->slots <= left->slots && (n->memory == 0 || n->memory <= left->memory);
}

struct live;

/* What the row says: the kind since the claim, the rest since the start.  Owned. */
struct run_task {
	int32_t attempt, max_attempts;
	int64_t timeout_us, fire_us;
	int64_t stall_us; /* stopped after this long without a sign of life; 0: never */
	int64_t spare_us; /* after this long it may be stopped for more important work; below 0: never */
	char *name, *kind, *command, *owner;
	/* of a sql run whose owner is not the node's own role; of an http run, the token with which its
	 * receiver answers (args.await); else NULL */
	char *proof;
	char *key;         /* for the log; NULL: it has none */
	char *traceparent; /* of the run; NULL: its task belongs to no trace */
	char *args_text;   /* as the database has sent them, until args_take(); NULL: there are none */
	struct pairs args;
	char **secret; /* what was filled in; see core/secret.h */
	size_t n_secrets;
	char *refused; /* why it cannot be executed; NULL: it can */
	bool unready;  /* refused for a reason that may soon be gone: the attempt is not counted */
};

/* Where it waits.  Belongs to the boss. */
struct run_place {
	enum run_phase phase;
	TAILQ_ENTRY(run) in_hand;
	size_t slot;          /* in the heap of its phase (delayed or ready), or HEAP_NONE */
	size_t deadline_slot; /* in the heap of timeouts, or HEAP_NONE */
	int64_t deadline_us;  /* clock_mono_us */
	int64_t ready_since_us;
	struct run *unit; /* more runs of the same unit, for the same worker; NULL ends it */
	int64_t
	    grouped;  /* how many there are in its unit, if these are sql runs that may be one transaction */
	bool release; /* to the starter: hand it back instead of starting it */
	bool locked;  /* the starter's: another session has the row locked */
	bool preemptible; /* it runs, and is counted as one that may give way */
	bool gives_way;   /* it was told to stop for another */
	bool goes_first;  /* one was told to stop for it */
};

/* How it is told to stop: the reason is set first, then the descriptor becomes readable. */
struct run_stop {
	_Atomic int64_t at_us; /* clock_mono_us; 0: nobody has stopped it */
	_Atomic bool stalled;  /* its time is out for lack of a sign of life, not by its timeout */
	_Atomic int why;       /* enum pgrab_stop */
	int fd;                /* eventfd, -1 for an instant kind */
	bool lent;             /* fd is its pool's, one for all its runs */
};

/* Is its end in the database?  Set by the thread that finds out. */
enum run_written {
	WRITTEN_NOT,    /* the finisher has yet to write it */
	WRITTEN_MAYBE,  /* finisher: the answer was lost, so it is looked up before it is written again */
	WRITTEN_BY_RUN, /* worker: its executor has written it, or left it to recovery */
	WRITTEN_NEVER,  /* worker, pools: not executed, because the node might not act any more */
};

/* What it took; 0: nobody knows. */
struct run_cost {
	int64_t cpu_us, memory_bytes; /* of its processes */
	int64_t output_bytes;         /* all that it printed, if not all is kept */
};

/* How it ended.  Belongs to the worker, then to the finisher. */
struct run_end {
	enum outcome outcome;
	enum run_written written;
	bool has_exit_code;
	int32_t exit_code;
	int64_t at_us; /* clock_mono_us */
	char *error, *output;
	bool output_truncated;
	struct run_cost cost;
	unsigned mutes;   /* finisher: how often the server did not answer to it alone */
	int64_t retry_us; /* after a failure: the wait that its handler asks for, or one of those below */
};

struct run {
	struct note note;  /* the message that it travels as; must be first */
	struct note begun; /* two more for the boss, because they overtake the first */
	struct note idle;

	/* from the claim; constant */
	int64_t id;
	int64_t version;
	int64_t incarnation;
	int64_t due_us; /* on the database's clock, since 1970 */
	/* The same on clock_mono_us: never earlier than the database's idea of it, if it is planned; what was
	 * due when it was claimed is only ordered by it. */
	int64_t due_mono_us;
	int band; /* of its priority, see BAND_STEP_US */
	struct need need;
	struct hold *hold; /* the claim it came with; a reference, or NULL */
	bool started;      /* status in the database is running */
	bool instant;      /* its kind never blocks: batches of these, which nobody can stop; by the boss */
	bool once;         /* at_most_once */
	bool alone;        /* it was in a group, and left it; by its worker */
	bool limited;      /* needs a place under a limit before it starts */
	bool copy;         /* of a run that has gone back to the boss: the finisher frees it */

	struct run_task task;
	struct run_place place;
	struct run_stop stop;
	struct run_end end;

	/* who carries it out, and since when */
	size_t crew;             /* the worker threads, 0, or the pool of that number */
	struct live *live;       /* with a pool, while a process has it: what it shows; the pools' */
	int64_t begun_us;        /* clock_mono_us */
	_Atomic int64_t sign_us; /* its last sign of life: output, or progress */
};

#define RETRY_DEFAULT INT64_C(0)  /* as the task says */
#define RETRY_NO      INT64_C(-1) /* this fire is over */
/* Of a run that was lost because of another, or could not begin: at once, and the attempt is not counted. */
#define RETRY_UNCOUNTED INT64_C(1)
/* This minus n: as the task says, but not before n us. */
#define RETRY_NOT_BEFORE INT64_C(-1)

/* A run is handed on this long before it is due: recording its start takes about a millisecond, and the
 * worker can then begin on time. */
#define LEAD_US (2 * US_PER_MS)

/* The bands of priority (pgrab_internal.band): 1 below zero, 2 zero, 3 up to 9, 4 up to 99, 5 above.
 * Among due tasks the one with the earliest (due - band * step) goes first, so nothing waits longer than
 * an hour behind more important work. */
#define BAND_STEP_US (900 * US_PER_S)

static inline int64_t
rank_us(int64_t due_us, int band)
{
	return due_us - band * BAND_STEP_US;
}

TAILQ_HEAD(run_list, run);

/* ISO 8601 of its planned time, and its fence as it is handed on to what it runs. */
#define RUN_FIRE_AT_MAX 40
#define RUN_FENCE_MAX   50
void run_fire_at(const struct run *r, char out[RUN_FIRE_AT_MAX]);
void run_fence(const struct run *r, char out[RUN_FENCE_MAX]);

struct run *run_create(int64_t id, int64_t version, int64_t incarnation);
void run_free(struct run *r);
/* Frees a whole chain and leaves its rows as they are, for recovery to find. */
void run_leave_all(struct run *chain);

/* A copy with only its fence and its share of the hold, for work that remains when the run
 * itself goes back to the boss. */
struct run *run_copy(const struct run *r);

/* From the mail that carried it (its `note`, never `begun` or `idle`). */
static inline struct run *
run_of(struct mail *m)
{
	return (struct run *)m;
}

static inline struct run *
run_next(struct run *r)
{
	return run_of(r->note.mail.next);
}

/* Puts r before chain and returns the new chain. */
static inline struct run *
run_chain(struct run *r, struct run *chain)
{
	r->note.mail.next = chain == NULL ? NULL : &chain->note.mail;
	return r;
}
