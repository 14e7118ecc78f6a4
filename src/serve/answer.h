/* The answerers: the threads that talk to the database.  Each has a connection per role that was asked for.
 * How many requests wait for them is bounded, and so is how long: a database that does not answer makes
 * requests fail, not pile up. */
#pragma once

#include "base/mailbox.h"
#include "serve/call.h"
#include "serve/settings.h"

struct answerers;
struct fleet;

/* database: which one, as serve_login().  fleet: is told how the database is; NULL: there is only this one.
 * done_fd: an eventfd that is rung when a call has come to `done`. */
struct answerers *answerers_create(const struct serve_settings *set, size_t database, struct fleet *fleet,
    struct mailbox *done, int done_fd);
void answerers_destroy(struct answerers **p); /* waits for the calls under way */

/* The call belongs to the answerers until it comes back through `done`.  False: there are too
 * many; it stays the caller's. */
bool answerers_push(struct answerers *p, struct call *c);

/* What /metrics says about the answerers. */
struct answerers_figures {
	int64_t waiting, busy, threads;
	int64_t round_trip_us; /* of the last statement that a thread had answered; 0: none yet */
	int64_t refused;       /* calls for which there was no room, or no time */
};
void answerers_figures(struct answerers *p, struct answerers_figures *out);
