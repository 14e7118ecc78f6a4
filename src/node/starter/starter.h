/* The starter thread: the last check of (version, incarnation) in the database before anything is executed,
 * for all runs that wait at that moment in one statement; and the handing back of what will not be
 * started. */
#pragma once

#include <stdbool.h>

struct node;
struct starter;

struct starter *starter_create(struct node *n);
void starter_destroy(struct starter **s);
void starter_start(struct starter *s);
void starter_stop(struct starter *s); /* after node->start_queue was closed: drains it, joins */

/* One round of the thread: waits for runs, and starts them.  False: the queue is closed and empty. */
bool starter_round(struct starter *s);
