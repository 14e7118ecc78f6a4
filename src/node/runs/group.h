/* A worker's unit of several sql runs: one transaction, if nothing speaks against it. */
#pragma once

struct node;
struct run;

/* state: what the sql executor has opened in this thread.  All of the unit goes on: to the finisher, or back
 * to the boss. */
void group_work(struct node *n, void *state, struct run *first);
