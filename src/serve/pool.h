/*
 * The threads that talk to the database.  Each has a connection per role that was asked for.  How many
 * requests wait for them is bounded, and so is how long: a database that does not answer makes
 * requests fail, not pile up.
 */
#ifndef PGRAB_SERVE_POOL_H
#define PGRAB_SERVE_POOL_H

#include "base/mailbox.h"
#include "serve/call.h"
#include "serve/settings.h"

struct pool;

/* done_fd: an eventfd that is rung when a call has come to `done`. */
struct pool *pool_create(const struct serve_settings *set, struct mailbox *done, int done_fd);
void pool_destroy(struct pool **p); /* waits for the calls under way */

/* The call belongs to the pool until it comes back through `done`.  False: there are too
 * many; it stays the caller's. */
bool pool_push(struct pool *p, struct call *c);

/* What /metrics says about the pool. */
struct pool_figures {
	int64_t waiting, busy, threads;
	int64_t round_trip_us; /* of the last statement that a thread had answered; 0: none yet */
	int64_t refused;       /* calls for which there was no room, or no time */
};
void pool_figures(struct pool *p, struct pool_figures *out);

#endif
