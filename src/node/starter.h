/*
 * The starter thread: the last check of (version, incarnation) in the database before anything is executed,
 * for all runs that wait at that moment in one statement; and the handing back of what will not be started.
 */
#ifndef PGRAB_NODE_STARTER_H
#define PGRAB_NODE_STARTER_H

struct node;
struct starter;

struct starter *starter_start(struct node *n);
void starter_stop(struct starter **s); /* after node->start_queue was closed: drains it, joins, frees */

#endif
