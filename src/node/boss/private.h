/* The inside of the boss: boss.c is the thread, queue.c what waits, back.c what is handed back, stop.c what
 * is to stop, group.c which sql runs go together, room.c what may be claimed, busy.c who may help, preempt.c
 * who gives way, mail.c what other threads call. */
#pragma once

#include <pthread.h>

#include "base/heap.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "node/boss/boss.h"

#define TIMED_MAX 1024 /* tasks held ahead of their time */
#define BURST_MAX 4096 /* tasks held because many end per second */
#define BURST_US  (100 * US_PER_MS)
#define AHEAD_MAX 1024 /* runs that a quick crew is given beyond those it has slots for */

#define MEMORY_ANY (INT64_C(1) << 60) /* room on a node that does not count it */

/* A large run that has its turn waits at least this long for enough slots, while nothing behind it begins;
 * at most for as long as it was late when that began.  Then others may have it: this long. */
#define KEEP_US (10 * US_PER_S)
#define REST_US (3 * US_PER_S)

enum command_what {
	CMD_DRAIN,
	CMD_UNDRAIN,
	CMD_HAND_BACK,
	CMD_STOP_RUNS,
	CMD_STOP_ONE,
	CMD_FENCE,
	CMD_LEAKS
};

struct command {
	struct note note; /* must be first */
	enum command_what what;
	enum pgrab_stop why;
	int64_t id, version; /* CMD_STOP_ONE */
	struct owned *rows;  /* CMD_LEAKS: the asker waits on `answered`; the others are freed by the boss */
	size_t n_rows;
	bool answered;
};

struct grant {
	struct note note; /* must be first */
	struct room taken;
};

struct slots {
	struct note note; /* must be first */
	size_t crew;
	int64_t more;
};

/* One of those who carry out runs.  All is counted in slots: most runs take one. */
struct crew {
	struct heap *ready;              /* by (due less its priority, id) */
	struct heap *large;              /* likewise: what takes several slots */
	struct heap *heavy;              /* likewise: what takes memory, and perhaps several slots */
	int64_t waiting;                 /* in all three */
	int64_t slots;                   /* what it has */
	int64_t idle;                    /* of these; below 0 for a moment when it shrinks */
	int64_t extra;                   /* of those in use: by large runs, beyond one each */
	int64_t out;                     /* of runs with starter, crew or finisher */
	int64_t done_now, done_before;   /* of runs settled in this and the last window of BURST_US */
	int64_t burst;                   /* the greater of the two, bounded */
	int64_t freed_now, freed_before; /* slots that became free in them; less, for workers, by units */
	int64_t ahead;      /* the greater of these, bounded: runs that may be started beyond its slots */
	int64_t giving_way; /* of its runs: told to stop for more important work, and still there */
};

struct boss {
	struct node *node; /* borrowed */
	pthread_t thread;
	int empty_fd;
	struct mailbox *inbox; /* loaders, starter, workers, finisher, control, heartbeat, recover -> boss */

	_Atomic size_t ends_locked; /* of those in hand; by the finisher */

	/* shared, under lock */
	pthread_mutex_t lock;
	pthread_cond_t changed; /* in_hand became 0, or a command was answered */
	struct room room;       /* free to take */
	struct room taken;      /* under way in loaders */
	struct room total;      /* both */
	struct room seen;       /* the least that it was since a loader has taken some */
	size_t in_hand_shown;
	unsigned posted, obeyed; /* commands */
	void (*wake)(void *ctx);
	void *wake_ctx;
	void (*tell_busy)(void *ctx);
	void *tell_busy_ctx;

	/* owned by the boss thread */
	struct one_thread only;
	struct heap *delayed;  /* by (due, id) */
	struct heap *timeouts; /* runs in a worker's hands, by (deadline, id) */
	struct run_list in_hand;
	size_t n_in_hand;
	struct crew crew[CREWS_MAX];
	size_t n_crews, n_ready, n_preemptible; /* of those in hand */
	/* by their limits: of runs that have slots, and of those in `heavy` */
	int64_t memory_out, memory_waiting;
	int64_t window_ends_us;
	int64_t next_review_us;
	int64_t full_since_us; /* no worker is free; 0: one is */
	int64_t next_busy_us;  /* not said again before */
	int64_t next_preempt_us;
	int64_t lease_over_us; /* the last lease whose end was seen, by its lease_until */
	int64_t text_us;       /* what sql runs that may be grouped take of late, each */
	int64_t group_max;     /* how many sql runs are handed to a worker at once */
	bool draining;
	enum pgrab_stop stopping;
};

/* For the boss thread only.  now: clock_mono_us. */

/* One round of the thread: waits for what comes next, and does it.  False: the inbox is closed. */
bool boss_round(struct boss *b);

/* queue.c */
const struct run *boss_kept_for(struct boss *b, const struct crew *c); /* or NULL */
void boss_heaps_create(struct boss *b);                                /* n_crews is set */
void boss_heaps_destroy(struct boss *b);
void boss_take(struct boss *b, struct run *r, int64_t now); /* claimed */
void boss_ripen(struct boss *b, int64_t now);               /* what has become due waits for a worker now */
void boss_dispatch(struct boss *b);
bool boss_may_return(const struct run *r); /* no worker has it, nor will at once */
/* A started run that no worker has ends: as told, or as if it had not been started. */
void boss_unbegun(struct boss *b, struct run *r, enum pgrab_stop why);
void boss_unqueue(struct boss *b, struct run *r); /* out of the heap that it waits in */
void boss_forget(struct boss *b, struct run *r);  /* and frees it; it is in no heap */
/* How many runs it may be given beyond its slots.  None beside a large run, which leaves some of its slots
 * idle: they would begin there. */
int64_t boss_ahead(const struct crew *c);
void boss_go_out(struct boss *b, struct run *r);     /* it is handed on */
void boss_free(struct boss *b, const struct run *r); /* what it took is idle again */

void boss_queue_ready(struct boss *b, struct run *r, int64_t now); /* it waits for a worker */
struct run *boss_pop_ready(struct boss *b, struct heap *from);
void boss_open_stop(struct boss *b, struct run *r); /* how it is told to stop; fd -1: out of descriptors */
/* A started run that is out and that no worker has. */
void boss_end_unbegun(struct boss *b, struct run *r, enum pgrab_stop why);

/* group.c */
/* Adds to a unit of one run what waits behind it and may be one transaction with it. */
void boss_group(struct boss *b, struct run *first, struct heap *from);
void boss_group_over(struct boss *b, const struct run *first, int64_t now); /* its worker is free again */
void boss_left_group(struct boss *b, struct run *r, int64_t now);           /* not carried out */

/* back.c */
void boss_refused(struct boss *b, const struct run *r); /* by the starter */
void boss_release(struct boss *b, struct run *r);
void boss_review(struct boss *b, int64_t now);
void boss_release_unbegun(struct boss *b);

/* stop.c */
void boss_stop_run(struct boss *b, struct run *r, enum pgrab_stop why); /* its worker has it */
void boss_stop_all(struct boss *b, enum pgrab_stop why);
void boss_stop_one(struct boss *b, const struct command *c);
void boss_drop_all(struct boss *b);             /* a fence: what waits is forgotten, what runs is stopped */
void boss_watch(struct boss *b, struct run *r); /* it has begun: its time counts */
void boss_time_out(struct boss *b, int64_t now);
bool boss_lease_watched(const struct boss *b, int64_t lease);
void boss_watch_lease(struct boss *b);

/* room.c */
void boss_turn_window(struct boss *b, int64_t now); /* how many runs end: crew.burst */
int64_t boss_memory_left(const struct boss *b);
void boss_publish_room(
    struct boss *b, int64_t now); /* how much may be claimed; tells a hungry loader when it grew */

/* busy.c */
void boss_note_busy(struct boss *b, int64_t now);
int64_t boss_next_busy(const struct boss *b); /* when to ask again even if nothing happens */
bool boss_helped(const struct boss *b);       /* we are busy, and another node is not */

/* preempt.c */
void boss_preempt(struct boss *b, int64_t now);    /* for what has waited too long */
void boss_gave_way(struct boss *b, struct run *r); /* if it was told to: its worker is free */
void boss_urgent_room(const struct boss *b, int64_t now, struct room *room);
