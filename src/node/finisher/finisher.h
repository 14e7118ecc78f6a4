/* The finisher thread: writes the outcomes of runs, with the history row in the same statement, as many as
 * have ended at that moment. */
#pragma once

#include <stdbool.h>

struct node;
struct finisher;

struct finisher *finisher_create(struct node *n);
void finisher_destroy(struct finisher **f); /* before the boss is */
void finisher_start(struct finisher *f);
void finisher_stop(struct finisher *f); /* after node->finish_queue was closed: drains it, joins */

/* One round of the thread: waits for runs that have ended, and writes their outcomes.  False: the
 * queue is closed and empty. */
bool finisher_round(struct finisher *f);

/* The one that has what the server was silent about; for tests, which call its rounds. */
struct finisher *finisher_aside(struct finisher *f);
