/* The inside of the starter: starter.c is the thread, back.c what is handed back, secrets.c what is added. */
#pragma once

#include <pthread.h>

#include "base/thread.h"
#include "core/backoff.h"
#include "core/run.h"
#include "db/store.h"
#include "node/doubts.h"
#include "node/starter/starter.h"

#define START_MAX   512
#define PATIENCE_US US_PER_S /* for a connection, before what is here is handed back */

struct starter {
	struct node *node; /* borrowed */
	pthread_t thread;
	/* owned by the thread */
	struct one_thread only;
	const struct store *store;
	struct db *db;
	int64_t used_us; /* when the connection last had something to do */
	struct backoff backoff;
	struct sifter sifter;
	struct run *batch[START_MAX];
	struct run *locked; /* chain of copies, to be handed back when their rows are unlocked */
	int64_t next_locked_us, contended_until_us;
	int64_t next_probe_us; /* while ill */
};

/* After an answer.  again: not RC_OK; false: give up, for now or for good. */
bool starter_again(struct starter *s, const char *what, enum rc rc, int64_t until_us, const struct err *err);
void starter_well(struct starter *s);
/* While ill: is it over? */
void starter_probe(struct starter *s);

/* Runs that have been started may need more than their rows.  What cannot be read now is tried elsewhere, or
 * later. */
void starter_secrets(struct starter *s, int64_t incarnation, struct run **batch, size_t n);

/* Of one incarnation, sorted by id.  What cannot be handed back here goes with the
 * heartbeat, except what is locked. */
void starter_release(struct starter *s, int64_t incarnation, struct run **runs, size_t n);
/* Copies of what is locked: the runs themselves return to the boss. */
void starter_keep_locked(struct starter *s, struct run *const *runs, size_t n);
void starter_retry_locked(struct starter *s);
