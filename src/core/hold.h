/*
 * Holds: what one claim took.  The claim writes the ids of its tasks into a row of pgrab.hold, so
 * that whoever recovers a dead node need not look for them; when the last run of the claim is over
 * the row is to go.  This counts the runs.
 *
 * A struct hold is shared by the runs of its claim, which wander between threads; it frees itself
 * with the last one and leaves its number in the list, for the next claim to delete the row along
 * with writing its own.
 */
#ifndef PGRAB_CORE_HOLD_H
#define PGRAB_CORE_HOLD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct hold;

struct hold_over {
	int64_t incarnation, batch;
};

/* Embedded; any thread. */
struct holds {
	pthread_mutex_t lock;
	int64_t last_batch;
	struct hold_over *over; /* rows that may go */
	size_t n_over, room;
};

void holds_init(struct holds *hs);
void holds_fini(struct holds *hs);

/* A new hold with one reference, the claim's own.  hs has to outlive it. */
struct hold *hold_open(struct holds *hs, int64_t incarnation);
int64_t hold_batch(const struct hold *h);
struct hold *hold_ref(struct hold *h);
void hold_unref(struct hold *h); /* NULL is fine */
/* The row stays, whatever becomes of the runs: one of them may be recorded as held
 * although nobody here has it any more (an answer that never came, a release that was refused).
 * Recovery finds it by this row alone. */
void hold_keep(struct hold *h); /* NULL is fine */

/* Moves up to max numbers of rows of this incarnation that may go to out; those of others are
 * forgotten, because their rows are recovered.  Give them back when they could not be deleted. */
size_t holds_take_over(struct holds *hs, int64_t incarnation, int64_t *out, size_t max);
void holds_give_back(struct holds *hs, int64_t incarnation, const int64_t *batch, size_t n);

#endif
