/*
 * The worker pool: each worker carries out one run at a time, by the executor of its kind.
 */
#ifndef PGRAB_NODE_WORKER_H
#define PGRAB_NODE_WORKER_H

struct node;
struct workers;

struct workers *workers_start(struct node *n);
void workers_stop(struct workers **w); /* after node->run_queue was closed: joins, frees */

#endif
