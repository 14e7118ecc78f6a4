/* Waits that are over: the first node sleeps until the next one is, as the server has said, and asks at the
 * latest every minute.  A wait that begins and ends before that rings the doorbell. */
#include "base/clock.h"
#include "node/context.h"
#include "node/recover/private.h"

#define ASK_US    (60 * US_PER_S)
#define DEAF_US   US_PER_S          /* no doorbell tells of new ones */
#define LOCKED_US (200 * US_PER_MS) /* what is over has been locked by another session */
#define END_US    US_PER_S          /* then the other duties have their turn */

void
recover_waits(struct recover *r)
{
	atomic_store(&r->waits, true);
	gate_ring(&r->gate);
}

void
recover_end_waits(struct recover *r, int64_t now)
{
	int64_t most = atomic_load(&r->node->bell_heard) ? ASK_US : DEAF_US, over, next_us;
	struct err err = {0};
	enum rc rc;

	atomic_store(&r->waits, false);
	do {
		rc = r->store->waits(r->db, &over, &next_us, &err);
	} while (rc == RC_OK && over > 0 && next_us <= 0 && clock_mono_us() < now + END_US);
	if (rc != RC_OK) {
		recover_failed(r, "waits", rc, &err);
		next_us = US_PER_S;
	} else if (next_us <= 0) {
		next_us = over > 0 ? 0 : LOCKED_US;
	}
	r->next_waits_us = clock_mono_us() + (next_us < most ? next_us : most);
}
