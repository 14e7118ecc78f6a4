/* What starter, finisher and heartbeat share: batches of runs, and the pause after a database error. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/rc.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "core/run.h"
#include "db/pg.h"
#include "db/store.h"

/* Takes up to max runs of one incarnation off the front of the chain, sorted by id.  0: the chain is empty.
 */
size_t batch_take(struct run **chain, struct run **batch, size_t max);

void batch_sort(struct run **batch, size_t n); /* by id: the lock order */

#define LOCKED_US    (250 * US_PER_MS) /* between tries of what is locked */
#define CONTENDED_US (2 * US_PER_S)    /* for this long after a locked row no statement waits for another */

/* Was the row of one of them locked when it was last tried? */
bool batch_is_locked(struct run *const *batch, size_t n);

/* Runs that wait for another try, oldest first.  All-zero is none. */
struct waiting {
	struct run *first, *last;
	size_t count;
	int64_t next_us; /* when they are tried again; the owner's */
};
void waiting_add(struct waiting *w, struct run *chain);
void waiting_add_one(struct waiting *w, struct run *r);
struct run *waiting_take(struct waiting *w); /* all of them */

/* After `what` has returned rc: logs that (at debug, unless it is a refusal) and waits a while, at
 * most a second.  False: do not try again, because rc is RC_BAD, or because the node is to stop at
 * once (`stop_now` is stopped). */
bool
batch_pause(struct backoff *b, struct gate *stop_now, enum rc rc, const char *what, const struct err *err);

/* A connection that is idle for this long is closed; it is made again when there is work. */
#define IDLE_US (60 * US_PER_S)

/* Until when a thread that could wait until until_us may wait before it checks whether its connection, last
 * used at used_us, is idle. */
int64_t batch_wait_us(struct db *db, int64_t used_us, int64_t until_us);
/* Closes it if it is. */
void batch_close_idle(struct db *db, int64_t used_us);
/* Something will be asked of it soon, which counts as use: connects, if it is not connected or no longer
 * (once; a refusal leaves it to the next call).  True: it is connected now, and was not. */
bool batch_get_ready(const struct store *store, struct db *db, int64_t *used_us);
