/* The heartbeat thread: keeps the node's row and with it the lease; watches the other nodes;
 * fences this one when it cannot. */
#pragma once

#include <stdbool.h>

#include "base/rc.h"
#include "core/member.h"
#include "db/store_node.h"

struct node;
struct heartbeat;

/* Makes this process the holder of its name: waits for the server (saying so once), waits until a silent
 * holder of the name is seen to be dead, and registers a new incarnation.  RC_OK: registered, the lease
 * holds.  RC_BAD: another live node has the name, or the server refuses us.  RC_CLOSED: a stop signal came.
 * Called by the main thread before any other thread runs. */
CHECKED enum rc heartbeat_create(struct node *n, struct heartbeat **out, struct err *err);

/* changed(ctx) is called in the heartbeat thread when the set of live nodes changed. */
void heartbeat_start(struct heartbeat *h, void (*changed)(void *ctx), void *ctx);

/* Beat now: the doorbell says that there is a wish to read.  Any thread. */
void heartbeat_ring(struct heartbeat *h);

/* There is news of a node; a node has joined, or may have.  Any thread. */
void heartbeat_hear(struct heartbeat *h, int64_t node_id, enum member_news news);
void heartbeat_hear_joins(struct heartbeat *h);

/* When nothing is in hand any more, before the threads it calls: says goodbye to the database
 * (state down) if in_order, joins, frees. */
void heartbeat_stop(struct heartbeat **h, bool in_order);
void heartbeat_destroy(struct heartbeat **h); /* of one that has no thread; NULL is fine */
