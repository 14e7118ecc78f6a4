/*
 * The finisher thread: writes what came of runs, with the history row in the same statement, as many as have
 * ended at that moment.
 */
#ifndef PGRAB_NODE_FINISHER_H
#define PGRAB_NODE_FINISHER_H

struct node;
struct finisher;

struct finisher *finisher_start(struct node *n);
void finisher_stop(struct finisher **f); /* after node->finish_queue was closed: drains it, joins, frees */

#endif
