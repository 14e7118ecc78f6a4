/* What a node says about itself with a heartbeat. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/keeper.h"
#include "node/context.h"
#include "node/crews/crews.h"
#include "node/health.h"
#include "node/heartbeat/private.h"

/* Counters that others keep from their start go in as the increase since the last beat. */
static void
count_of_others(struct heartbeat *h)
{
	int64_t lost = h->node->keeper == NULL ? 0 : keeper_lost(h->node->keeper), dropped = log_dropped();

	node_count(h->node, COUNT_KEEPERS_LOST, lost - h->keepers_lost);
	node_count(h->node, COUNT_LOG_DROPPED, dropped - h->log_dropped);
	h->keepers_lost = lost;
	h->log_dropped = dropped;
}

static void
read_gauges(struct heartbeat *h, int64_t gauge[GAUGE__COUNT])
{
	struct node *n = h->node;
	int64_t left = lease_until(&n->lease) - clock_boot_us();

	gauge[GAUGE_IN_HAND] = atomic_load(&n->in_hand);
	gauge[GAUGE_RUNNING] = node_running(n);
	gauge[GAUGE_TO_START] = (int64_t)mailbox_count(n->start_queue);
	gauge[GAUGE_TO_RUN] = (int64_t)mailbox_count(n->run_queue);
	gauge[GAUGE_TO_FINISH] = atomic_load(&n->ended);
	gauge[GAUGE_CHILDREN] = n->keeper == NULL ? 0 : keeper_runs(n->keeper);
	gauge[GAUGE_CONNECTIONS] = db_open_count();
	gauge[GAUGE_LEASE_LEFT] = left > 0 ? left : 0;
	gauge[GAUGE_ROUND_TRIP] = h->round_trip_us;
	gauge[GAUGE_CPU_FREE] = machine_cpu_free(&h->machine);
	gauge[GAUGE_MEMORY_FREE] = machine_memory_free(&h->machine);
	gauge[GAUGE_FITNESS] = h->fitness;
	gauge[GAUGE_MEMORY_USED] = atomic_load(&n->memory_used);
}

/* {"": [slots in use, slots], ...}: the workers, and each pool by its name. */
static const char *
print_crews(struct heartbeat *h)
{
	const struct node *n = h->node;
	struct buf *b = &h->crews;

	buf_reset(b);
	for (size_t i = 0; i < crews_count(n); i++) {
		buf_adds(b, i == 0 ? "{" : ",");
		buf_json(b, crews_name(n, i));
		buf_addf(
		    b, ":[%" PRId64 ",%" PRId64 "]", atomic_load(&n->running[i]), atomic_load(&n->slots[i]));
	}
	buf_addc(b, '}');
	return buf_str(b);
}

/* The end of this life of the server must be one that we can prove. */
static enum outlast
can_outlast(const struct heartbeat *h)
{
	if (!h->store->can_tell(h->db))
		return OUTLAST_NO;
	return h->node->set->outlast_restart == OUTLAST_RESTART_YES ? OUTLAST_ASYNC : OUTLAST_DURABLE;
}

struct node_beat
heartbeat_figures(struct heartbeat *h)
{
	struct node *n = h->node;
	bool ill = !health_may_claim(n);
	struct node_beat b = {.node_id = atomic_load(&n->node_id),
	    .incarnation = atomic_load(&n->incarnation),
	    .outlast = can_outlast(h),
	    .draining = node_draining(n),
	    .bell = atomic_load(&n->hungry) == 0,
	    .busy = ill || atomic_load(&n->busy),
	    .ill = ill,
	    .crews = print_crews(h),
	    .doubts = doubts_print(&n->doubts, &h->doubts),
	    .why = h->fitness == 0 ? NULL : h->why,
	    .work = h->fitness == 0 ? NULL : buf_str(&h->work)};

	b.outlasts = b.outlast != OUTLAST_NO && h->durable;
	count_of_others(h);
	read_gauges(h, b.gauge);
	for (int i = 0; i < COUNT__COUNT; i++)
		b.add[i] = atomic_exchange(&n->count[i], 0);
	return b;
}

void
heartbeat_give_back(struct heartbeat *h, const struct node_beat *b)
{
	for (int i = 0; i < COUNT__COUNT; i++)
		node_count(h->node, i, b->add[i]);
}
