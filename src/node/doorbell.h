/*
 * The doorbell: LISTEN on its own connection, in the control thread's event loop.  A hint and nothing more:
 * everything works with it cut, only later by at most `poll`.
 */
#ifndef PGRAB_NODE_DOORBELL_H
#define PGRAB_NODE_DOORBELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct doorbell;

/* Called in the event loop.  n = 0: no shard was named, or the connection was just made and rings may have
 * been missed: look everywhere. */
typedef void (*doorbell_fn)(void *ctx, const uint16_t *shards, unsigned n);

/* Somebody wants something of nodes (drain a node, stop a run): the heartbeat reads what. */
typedef void (*doorbell_wish_fn)(void *ctx);

/* Connects in the background, and again whenever the connection is lost.  *listening: kept to say whether a ring would
 * be heard. */
struct doorbell *doorbell_create(struct event_base *base, const char *dsn, doorbell_fn ring,
    doorbell_wish_fn wish, _Atomic bool *listening, void *ctx);
void doorbell_destroy(struct doorbell **d);

#endif
