/*
 * What starter and finisher share: batches of runs, and the pause after a database error.
 */
#ifndef PGRAB_NODE_BATCH_H
#define PGRAB_NODE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "core/run.h"

/* Takes up to max runs of one incarnation off the front of the chain, sorted by id.  0: the chain is empty.
 */
size_t batch_take(struct run **chain, struct run **batch, size_t max);

void batch_sort(struct run **batch, size_t n); /* by id: the lock order */

/*
 * After `what` was answered with rc: says so in the log (the first time in a row, and then now and then) and
 * waits a while, at most a second. False: do not try again, because rc is RC_BAD, or because the node is to
 * stop at once (`hurry` is stopped).
 */
bool batch_pause(struct backoff *b, struct gate *hurry, enum rc rc, const char *what, const struct err *err);

#endif
