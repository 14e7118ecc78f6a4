/* The doorbell: LISTEN on its own connection, in the control thread's event loop.  Only a hint: without it
 * everything still works, at most `poll` later. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/member.h"

struct event_base;
struct doorbell;

/* Called in the event loop. */
struct doorbell_calls {
	/* Something is due soon in these shards; n = 0: in more than were named. */
	void (*ring)(void *ctx, const uint16_t *shards, unsigned n);
	/* There are new lanes, say, or the connection was just made and rings may have been missed. */
	void (*anew)(void *ctx);
	/* A person wants something of nodes (drain a node, stop a run): the heartbeat reads what it is. */
	void (*wish)(void *ctx);
	/* People are to be told of something. */
	void (*notice)(void *ctx);
	/* A wait has begun that is over soon. */
	void (*waits)(void *ctx);
	/* A person asks a node what its runs have printed. */
	void (*ask)(void *ctx, int64_t node_id);
	/* There is news of a node. */
	void (*news)(void *ctx, int64_t node_id, enum member_news news);
	/* A node has joined, or may have: the connection was just made. */
	void (*joins)(void *ctx);
	void *ctx;
};

/* Connects in the background, and again whenever the connection is lost.  *listening: kept to say
 * whether a ring would be heard.  calls is copied. */
struct doorbell *doorbell_create(
    struct event_base *base, const char *dsn, const struct doorbell_calls *calls, _Atomic bool *listening);
void doorbell_destroy(struct doorbell **d);
