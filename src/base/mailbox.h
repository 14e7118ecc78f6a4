/* A queue of messages between threads: many may push, many may pop.  Push never blocks: how much a mailbox
 * can hold is bounded by what its senders were granted, and its owner says how.  Messages are embedded nodes,
 * so a push allocates nothing. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

struct mail {
	struct mail *next; /* owned by the mailbox while the message is in it */
};

struct mailbox;

struct mailbox *mailbox_create(void);
void mailbox_destroy(struct mailbox **m); /* nobody may be waiting; messages left in it are not freed */

/* Ownership of the message passes to the mailbox.  After mailbox_close it is still accepted: the
 * owner drains it or it is lost. */
void mailbox_push(struct mailbox *m, struct mail *msg);

/* A chain linked by next and ended by NULL, in order, in one step: one lock, one wake-up. */
void mailbox_push_chain(struct mailbox *m, struct mail *first);

/* Waits for one message until `until_us` (clock_mono_us; CLOCK_NEVER waits for ever; 0 does not wait).
 * RC_OK: *out is the oldest message.  RC_AGAIN: the time passed.  RC_CLOSED: closed and empty. */
CHECKED enum rc mailbox_pop_until(struct mailbox *m, int64_t until_us, struct mail **out);

/* The same, but takes all messages there are, oldest first, as a chain. */
CHECKED enum rc mailbox_pop_all_until(struct mailbox *m, int64_t until_us, struct mail **out);

/* Wakes every waiter, for good: they get what is left, then RC_CLOSED. */
void mailbox_close(struct mailbox *m);

/* Wakes one waiter of pop_until or pop_all_until once with RC_AGAIN, or the next one
 * to come if none is there. */
void mailbox_poke(struct mailbox *m);

size_t mailbox_count(struct mailbox *m);
