/* The workers: each carries out one run at a time, by the executor of its kind. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

struct node;
struct worker;
struct workers;

struct workers *workers_start(struct node *n);
/* From now on at most `count` at once; busy ones finish first.  Main thread.  RC_AGAIN or RC_FATAL: no thread
 * could be started, nothing was changed. */
CHECKED enum rc workers_resize(struct workers *w, int64_t count, struct err *err);
void workers_stop(struct workers **w); /* after node->run_queue was closed: joins, frees */

/* One worker, and one round of its thread: waits for a unit, and carries it out.  False: the queue is closed
 * and empty; it has let go of what executors keep. */
struct worker *worker_create(struct node *n);
bool worker_round(struct worker *w);
void worker_destroy(struct worker **w);
