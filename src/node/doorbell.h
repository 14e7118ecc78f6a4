/*
 * The doorbell: LISTEN on its own connection, in the control thread's event loop.  A hint and nothing more:
 * everything works with it cut, only later by at most `poll`.
 */
#ifndef PGRAB_NODE_DOORBELL_H
#define PGRAB_NODE_DOORBELL_H

#include <stdint.h>

struct event_base;
struct doorbell;

/* Called in the event loop.  n = 0: no shard was named, or the connection was just made and rings may have
 * been missed: look everywhere. */
typedef void (*doorbell_fn)(void *ctx, const uint16_t *shards, unsigned n);

/* Connects in the background, and again whenever the connection is lost. */
struct doorbell *doorbell_create(struct event_base *base, const char *dsn, doorbell_fn ring, void *ctx);
void doorbell_destroy(struct doorbell **d);

#endif
