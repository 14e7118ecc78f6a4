/* What an executor gets of a run: the task as it sees it, and what the node does for it. */
#pragma once

#include "core/run.h"
#include "pgrab/executor.h"

struct live;
struct node;

struct hosting {
	const struct node *node;
	struct run *run;
	struct live *live; /* begun; the thread's that has the run */
	struct pgrab_host host;
	struct pgrab_run view;
	char fire_at[RUN_FIRE_AT_MAX], fence[RUN_FENCE_MAX];
};

/* It must stay where it is until the run is over.  All borrowed. */
void hosting_make(struct hosting *h, const struct node *n, struct run *r, struct live *live);
