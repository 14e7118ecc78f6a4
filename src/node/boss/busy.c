/* The boss: whether the node is busy, so that others take what is due in its place.  This is about the
 * workers; a full pool of handlers leaves its tasks to nodes that steal. */
#include <stdatomic.h>

#include "base/clock.h"
#include "node/boss/private.h"
#include "node/context.h"

/* With no worker free for this long, and few runs ending, the node is busy.  It says
 * so at most this often. */
#define BUSY_US       (50 * US_PER_MS)
#define BUSY_EVERY_US US_PER_S

void
boss_note_busy(struct boss *b, int64_t now)
{
	const struct crew *c = &b->crew[0];
	bool busy;

	if (c->idle > 0)
		b->full_since_us = 0;
	else if (b->full_since_us == 0)
		b->full_since_us = now;
	busy = b->full_since_us != 0 && now - b->full_since_us >= BUSY_US && c->burst <= c->slots;
	if (busy == atomic_load(&b->node->busy) || (busy && now < b->next_busy_us))
		return;
	atomic_store(&b->node->busy, busy);
	if (!busy)
		return; /* goes with the next beat */
	b->next_busy_us = now + BUSY_EVERY_US;
	b->next_review_us = now;
	if (b->tell_busy != NULL)
		b->tell_busy(b->tell_busy_ctx);
}

int64_t
boss_next_busy(const struct boss *b)
{
	int64_t at = b->full_since_us + BUSY_US;

	if (b->full_since_us == 0 || atomic_load(&b->node->busy))
		return CLOCK_NEVER;
	at = at > b->next_busy_us ? at : b->next_busy_us;
	return at > b->window_ends_us ? at : b->window_ends_us; /* then it is known how many have ended */
}

bool
boss_helped(const struct boss *b)
{
	return atomic_load(&b->node->busy) && atomic_load(&b->node->helped);
}
