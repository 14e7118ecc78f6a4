/* Loader threads: look for tasks that are due soon in the shards that are ours, and claim them. */
#pragma once

#include <stdint.h>

#include "base/rc.h"

struct node;
struct loaders;

/* RC_BAD: the strategy cannot be loaded.  Any thread may then ring. */
CHECKED enum rc loaders_create(struct node *n, struct loaders **out, struct err *err);
void loaders_start(struct loaders *l);
void loaders_stop(struct loaders *l); /* no more claims after it returns; joins */
void loaders_destroy(struct loaders **l);

/* The doorbell: something is due soon in these shards; n = 0: look everywhere. */
void loaders_ring(struct loaders *l, const uint16_t *shards, unsigned n);
/* The same for all shards, and there may be new lanes. */
void loaders_ring_lanes(struct loaders *l);
/* There is room again, or the cluster changed: look now. */
void loaders_wake(void *l);
