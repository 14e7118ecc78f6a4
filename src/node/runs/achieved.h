/* What the runs of this node came to, kind by kind, for a strategy that wants to know. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "core/work.h"

struct node;
struct run;

struct achieved {
	_Atomic bool wanted; /* nothing is kept for a strategy that does not ask; by the heartbeat */
	pthread_mutex_t lock;
	struct work work; /* under lock */
};

void achieved_init(struct achieved *a);
void achieved_fini(struct achieved *a);

/* A run has ended, or was refused.  Any thread. */
void achieved_note(struct node *n, const struct run *r);
/* One that was executed: counts it in the node's figures, and logs it. */
void achieved_count(struct node *n, const struct run *r);
/* All of it, after it has faded to so much of itself. */
void achieved_take(struct achieved *a, double keep, struct work *out);
