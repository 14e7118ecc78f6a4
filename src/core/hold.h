/*
 * Holds: what one claim took.  The claim writes the ids of its tasks into a row of pgrab.hold, so that
 * recovery of a dead node need not search for them; when the last run of the claim is over the row can go.
 * This counts the runs.
 *
 * A struct hold is shared by the runs of its claim, which travel between threads.  With the last of
 * them it is freed and leaves its number in the list; the next claim deletes that row in the
 * statement that writes its own.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hold;

struct hold_over {
	int64_t incarnation, batch;
	bool doubted;
};

/* Embedded; any thread. */
struct holds {
	_Atomic int64_t last_batch;
	pthread_mutex_t lock;   /* of what follows */
	struct hold_over *over; /* rows to delete */
	size_t n_over, room;
};

void holds_init(struct holds *hs);
void holds_fini(struct holds *hs);

/* A new hold with one reference, the claim's own.  hs must outlive it. */
struct hold *hold_open(struct holds *hs, int64_t incarnation);
int64_t hold_batch(const struct hold *h);
int64_t holds_last(struct holds *hs); /* the number of the last one; 0: none was opened yet */
struct hold *hold_ref(struct hold *h);
void hold_unref(struct hold *h); /* NULL is fine */
/* Keeps the row whatever becomes of the runs: the database may still show one as held although no thread here
 * has it (an answer that never came, a release that was refused).  Recovery finds it by this row alone. */
void hold_keep(struct hold *h); /* NULL is fine */

/* A run of it has ended, but the database did not know that run: it may show another as held (a server that
 * went back to before the start).  Then the row goes only when no task of it is held. */
void hold_doubt(struct hold *h); /* NULL is fine */

/* Of rows that can be deleted: is one there with a doubt? */
bool holds_doubted(struct holds *hs);

/* Moves the numbers of up to max rows that can be deleted to out: only those without a doubt, or all.  Those
 * of other incarnations are forgotten: recovery deals with their rows.  Give the numbers back if the rows
 * could not be deleted. */
size_t holds_take_over(struct holds *hs, int64_t incarnation, bool doubted, int64_t *out, size_t max);
void holds_give_back(struct holds *hs, int64_t incarnation, bool doubted, const int64_t *batch, size_t n);
