/* The boss: owns every task in hand, holds each until it is due (less LEAD_US, which its start needs), and
 * hands it to a free worker. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/run.h"
#include "db/store_task.h"
#include "handler/pool.h"

struct node;
struct boss;

struct boss *boss_create(struct node *n);
void boss_destroy(struct boss **b);
void boss_start(struct boss *b);
void boss_stop(struct boss *b); /* ends and joins the thread; whatever is still in hand is freed */

/* Who carries out runs: see node/crews/crews.h. */
#define CREWS_MAX (POOLS_MAX + 2)

/* Room for tasks.  ready: due now, slots of each crew; timed: due within lookahead.  begins: how many of
 * ready[0] a worker can begin at once, so that their claim may start them.  memory: bytes.  urgent: of a crew
 * without room, for which a run gives way, from this band on.  before: of each crew, the rank (on
 * clock_mono_us) of the large run that it is kept free for; only what is before that may be claimed.
 * INT64_MAX: there is none.  large: of each crew, how many large runs may be claimed although they do not
 * fit: one may wait for slots. */
struct room {
	int64_t ready[CREWS_MAX], timed, begins, memory;
	int64_t urgent[CREWS_MAX];
	int from_band[CREWS_MAX];
	int64_t before[CREWS_MAX], large[CREWS_MAX];
};
int64_t room_ready(const struct room *r); /* of all crews together */

/* A loader takes all room there is, and must give back what it took, with the runs
 * it claimed (NULL: none). */
struct room boss_take_room(struct boss *b);
void boss_give(struct boss *b, struct run *claimed, struct room taken);

/* The next time the room grows, `wake` is called (by the boss thread).  Set once, before boss_start. */
void boss_on_room(struct boss *b, void (*wake)(void *ctx), void *ctx);

/* When the node has become busy, `tell` is called (by the boss thread).  Set once, before boss_start. */
void boss_on_busy(struct boss *b, void (*tell)(void *ctx), void *ctx);

/* From a worker.  boss_begun: it begins this run, whose timeout counts from run->begun_us.  boss_idle: it is
 * free again; first is the first run of its unit.  Call it before the run is handed to the finisher. */
void boss_begun(struct boss *b, struct run *r);
void boss_idle(struct boss *b, struct run *first);
/* The same; left: a chain of runs of the unit that the worker has not carried out, and gives back. */
void boss_idle_again(struct boss *b, struct run *first, struct run *left);

/* From the pools: this crew can carry out that many more runs at once, or fewer. */
void boss_slots(struct boss *b, size_t crew, int64_t more);
/* The same as boss_begun and boss_idle for many: a chain of their notes `begun` and `idle`. */
void boss_notes(struct boss *b, struct mail *chain);

/* Runs that are over: outcome recorded, or refused, or dropped.  From starter and finisher. */
void boss_settled(struct boss *b, struct run *chain);

/* From the finisher: n runs cannot be recorded, because other sessions have their rows locked.  They need no
 * worker, and so take no room. */
void boss_ends_locked(struct boss *b, size_t n);

/* Hands back everything unstarted and takes nothing more; and the reverse. */
void boss_drain(struct boss *b);
void boss_undrain(struct boss *b);
/* Hands back everything unstarted, some of which may not be for us any more. */
void boss_hand_back(struct boss *b);
/* Tells one run to stop, if it is still under way.  May be repeated. */
void boss_cancel(struct boss *b, int64_t id, int64_t version);
/* Drain, and tell every run to stop. */
void boss_stop_runs(struct boss *b, enum pgrab_stop why);
/* Drop everything of this incarnation: unstarted ones silently (others recover them), running ones are told
 * to stop. */
void boss_fence(struct boss *b);

/* Waits until nothing is in hand (clock_mono_us deadline).  False: something still is. */
bool boss_wait_empty(struct boss *b, int64_t until_us);

/* The same, until all that it was told is done, and nothing is executed any more.  What the starter has
 * will not be, after a fence; what has ended waits for the finisher. */
bool boss_wait_still(struct boss *b, int64_t until_us);

/* A descriptor that becomes readable whenever nothing is left in hand; edge-triggered: then ask
 * boss_wait_empty(b, 0).  Borrowed. */
int boss_empty_fd(const struct boss *b);

/* Of rows the database says are ours, keeps those that are not in hand: leaks.  Synchronous; returns how many
 * are left in rows. */
size_t boss_leaks(struct boss *b, struct owned *rows, size_t n);
