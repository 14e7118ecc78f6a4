/* The inside of the finisher: finisher.c has its rounds, batch.c one batch, aside.c what the server was
 * silent about. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "core/backoff.h"
#include "node/batch.h"
#include "node/context.h"
#include "node/finisher/write.h"
#include "node/finisher/finisher.h"

#define FINISH_MAX 1000

/* There are two of them: the one that everything goes to, and the one aside (aside.c). */
struct finisher {
	struct node *node; /* borrowed */
	pthread_t thread;
	struct mailbox *queue;  /* borrowed; aside: its own */
	struct finisher *aside; /* NULL in the one aside */
	_Atomic size_t n_held;  /* aside: how many it has */

	/* owned by the thread */
	struct one_thread only;
	const struct store *store;
	struct db *db;
	int64_t used_us; /* when the connection last had something to do */
	struct backoff backoff;
	struct finish_writer writer;
	struct run *batch[FINISH_MAX];
	struct finish finish[FINISH_MAX];
	struct finish *open[FINISH_MAX]; /* those of them that are still to be written */
	struct waiting locked; /* another session has their rows locked, or they alone are refused */
	struct waiting kept;   /* the server could not take them */
	struct waiting mute;   /* it did not answer in time; aside: although each was alone */
	int64_t contended_until_us;
	bool trial;        /* what is kept may be bad rows: others are claimed, to see whether they pass */
	unsigned silences; /* in a row, with nothing written between them */
	size_t most;       /* in one statement */
	/* finishes that the fence refused: each is counted, and logged in one line a second */
	struct {
		uint64_t count; /* not logged yet */
		int64_t id, next_us;
	} stale;
};

/* What is known when a batch is begun.  aside: these were locked, or refused while others passed, or the
 * server was silent about them, so that what becomes of them says nothing about the server.  alone: nothing
 * else is here. */
struct offer {
	bool aside, alone;
};

/* Fills batch[] from the chain, with no more output than one statement should have. */
size_t finisher_take(struct finisher *s, struct run **chain, size_t max);
/* batch[0..n): one incarnation, sorted by (id, version).  Not RC_OK: what is still open must be kept. */
CHECKED enum rc finisher_batch(struct finisher *s, size_t n, struct offer offer, struct err *err);
/* After it: what is locked, or could not be written, stays here; the rest goes back to the boss.  Returns how
 * many stayed among the locked. */
size_t finisher_settle(struct finisher *s, size_t n, struct offer offer, enum rc rc, const struct err *err);

/* How long the server gets for n of them. */
int64_t finisher_patience(const struct finisher *s, size_t n);

/* Hands over what the server was silent about. */
void finisher_put_aside(struct finisher *s);
/* What the one aside does with what has come, and when it wants its next round. */
void finisher_sift(struct finisher *s, struct run *chain);
int64_t finisher_sift_next(const struct finisher *s);
