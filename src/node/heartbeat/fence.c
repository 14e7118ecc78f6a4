/* From the loss of the lease to a new incarnation; see heartbeat.h. */
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/keeper.h"
#include "node/boss/boss.h"
#include "node/heartbeat/private.h"
#include "node/recover/recover.h"

/* When what runs in this process must have ended, on clock_boot_us: that counts from the end of the lease,
 * however late we see it.  What hears of it only now gets a moment; and all its time after a freeze so long
 * that others have begun, because a process that exits helps nobody then. */
static int64_t
must_end(const struct heartbeat *h)
{
	int64_t now = clock_boot_us(), over = lease_until(&h->node->lease);
	int64_t ending = lease_ending_us(h->node->set->fence_after_us, h->node->set->dead_after_us);
	int64_t until = (over < now ? over : now) + ending;

	if (now >= until + LEASE_MARGIN_US)
		return now + ending;
	return until < now + LEASE_MARGIN_US ? now + LEASE_MARGIN_US : until;
}

static void
stop_acting(struct heartbeat *h, const char *why)
{
	struct node *n = h->node;
	int64_t old = atomic_exchange(&n->incarnation, 0);

	lease_drop(&n->lease);
	h->outlast_us = 0;
	node_server(n, 0); /* what has ended may be told to whichever answers */
	if (n->keeper != NULL)
		keeper_lease(n->keeper, 0);
	node_count(n, COUNT_FENCES, 1);
	boss_fence(n->boss);
	log_error("fenced", "node=%s incarnation=%" PRId64 " reason=\"%s\"", n->set->name, old, why);
}

/* Nothing of the old incarnation may run any more.  What waits for the server's answer to its start does not
 * run, whatever the answer: a worker asks first whether the node may act (run_begins()).  What runs in
 * this process (a plug-in) cannot be ended by force: others will begin it when dead_after is over, so this
 * process exits before that. */
static void
await_ends(struct heartbeat *h, int64_t until_boot_us)
{
	/* Each wait is short, so that a stop is seen. */
	while (
	    !gate_stopped(&h->gate) && !boss_wait_still(h->node->boss, clock_mono_us() + 100 * US_PER_MS)) {
		if (clock_boot_us() < until_boot_us)
			continue;
		log_error("fence_stuck", "in_hand=%" PRId64 " hint=\"%s\"", atomic_load(&h->node->in_hand),
		    "a run does not end although the node may not act any more; the process exits, to be "
		    "started again by its supervisor");
		if (h->node->keeper != NULL)
			keeper_no_grace(h->node->keeper, clock_mono_us() + US_PER_S);
		log_flush();
		_exit(1);
	}
}

/* What ended is still true, and counts under its old fence while no other node has taken the task: it is
 * recorded before this node gives up its old incarnation, which would make it look lost. */
static void
offer_outcomes(struct heartbeat *h)
{
	const struct settings *set = h->node->set;
	int64_t until = clock_mono_us() + (set->dead_after_us - set->fence_after_us) / 2;

	while (!gate_stopped(&h->gate) && clock_mono_us() < until &&
	       !boss_wait_empty(h->node->boss, clock_mono_us() + 200 * US_PER_MS))
		;
}

/* One try to come back; the gate waits between tries. */
static enum rc
come_back(struct heartbeat *h, int64_t old, bool *offered, struct err *err)
{
	enum rc rc = h->store->connect(h->db, err);

	if (rc == RC_OK && !*offered)
		offer_outcomes(h);
	*offered = *offered || rc == RC_OK;
	if (rc == RC_OK)
		rc = heartbeat_name_again(h, old, err);
	if (rc == RC_OK) {
		h->server.system = 0; /* whatever answers now is the one that counts */
		h->generation = 0;
		h->beat = 0;
		recover_own_ended(h->node->recover, old);
		heartbeat_publish(h);
	}
	return rc;
}

void
heartbeat_fence(struct heartbeat *h, int64_t old, const char *why)
{
	struct err err = {0};
	int64_t must_end_us = must_end(h);
	bool offered = false;

	ASSERT_MINE(&h->only);
	stop_acting(h, why);
	await_ends(h, must_end_us);
	backoff_reset(&h->backoff);
	while (!gate_stopped(&h->gate)) {
		enum rc rc = come_back(h, old, &offered, &err);
		bool taken = rc == RC_AGAIN && h->watch.incarnation != 0;
		int64_t wait = backoff_next_us(&h->backoff);

		if (rc == RC_OK) {
			backoff_reset(&h->backoff);
			return;
		}
		if (h->backoff.tries % 32 == 1)
			log_warn("waiting", "for=lease error=\"%s\"", err.text);
		/* To see whether another holder of the name beats, look as often as it should. */
		gate_wait(&h->gate, clock_mono_us() + (taken ? h->node->set->heartbeat_us : wait));
	}
}
