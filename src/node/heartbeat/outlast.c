/*
 * Runs outlast a restart of the server.  The rules, and why no run is doubled by them: ADR 29.
 *
 * h->outlast_us: when the last beat was sent, if its row says that our runs outlast this life of the server
 * and the answer that the row will not be lost; else 0.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/keeper.h"
#include "node/heartbeat/private.h"

static void
tell_keeper(struct heartbeat *h)
{
	if (h->node->keeper != NULL)
		keeper_lease(h->node->keeper, lease_until(&h->node->lease));
}

void
heartbeat_cut(struct heartbeat *h, const struct node_beat *b)
{
	if (!b->outlasts)
		h->outlast_us = 0;
	lease_cut(&h->node->lease, clock_boot_us() + h->node->set->fence_after_us);
	tell_keeper(h);
}

void
heartbeat_beaten(struct heartbeat *h, int64_t sent_boot_us, const struct node_beat *b, bool durable)
{
	h->durable = durable;
	h->outlast_us = b->outlasts && durable ? sent_boot_us : 0;
	heartbeat_renew(h, sent_boot_us);
}

void
heartbeat_outlast(struct heartbeat *h)
{
	const struct settings *set = h->node->set;
	int64_t now = clock_boot_us(), until;

	if (h->outlast_us == 0 || !h->store->server_over(h->db) || !lease_holds(&h->node->lease, now))
		return;
	until = h->outlast_us + set->fence_after_us + lease_outlast_us(set->dead_after_us);
	if (until <= lease_until(&h->node->lease))
		return;
	lease_renew(&h->node->lease, until, 0);
	tell_keeper(h);
	log_warn("outlast", "lease_left_ms=%" PRId64 " hint=\"%s\"", (until - now) / US_PER_MS,
	    "the server is being restarted, so nobody can take our tasks; what runs goes on");
}
