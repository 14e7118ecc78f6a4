/* What the machine has left, and how fit the node's strategy finds it: both go out with the beats. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "node/context.h"
#include "node/heartbeat/private.h"
#include "strategy/host.h"

#define EVERY_BEATS  5
#define SMALL        5                /* per cent: a change that is not worth a line in the log */
#define HALF_LIFE_US (300 * US_PER_S) /* of what runs have shown */

enum rc
heartbeat_fitness_open(struct heartbeat *h, struct err *err)
{
	const struct settings *set = h->node->set;

	machine_init(&h->machine, "");
	if (strategy_open(set->strategy, set->strategy_options, &h->strategy, err) != RC_OK)
		return RC_BAD;
	if (!strategy_has_fitness(h->strategy))
		strategy_close(&h->strategy);
	else
		atomic_store(&h->node->achieved.wanted, true);
	return RC_OK;
}

/* The picture with what we know of ourselves, which is newer. */
static int64_t
ask(struct heartbeat *h, const struct cluster *c, const struct work *work)
{
	AUTO_FREE struct pgrab_node *nodes = xcalloc(c->view.n_nodes, sizeof *nodes);
	struct pgrab_work own[WORK_KINDS];
	struct pgrab_cluster view = c->view;
	int64_t fitness;

	memcpy(nodes, c->view.nodes, c->view.n_nodes * sizeof *nodes);
	nodes[view.self].fitness = h->fitness;
	nodes[view.self].n_work = work_view(work, own);
	nodes[view.self].work = own;
	nodes[view.self].cpu_free = machine_cpu_free(&h->machine);
	nodes[view.self].memory_free = machine_memory_free(&h->machine);
	view.nodes = nodes;
	fitness = strategy_fitness(h->strategy, &view, h->why, sizeof h->why);
	return fitness;
}

static void
judge(struct heartbeat *h, double keep)
{
	struct cluster *c = cluster_slot_get(&h->node->cluster);
	int64_t before = h->fitness;
	struct work work;

	achieved_take(&h->node->achieved, keep, &work);
	work_print(&work, &h->work);
	if (before == 0)
		h->fitness = before = 100;
	if (c != NULL && c->view.self < c->view.n_nodes)
		h->fitness = ask(h, c, &work);
	if (c != NULL)
		cluster_put(&h->node->cluster, c);
	if (h->fitness > before + SMALL || h->fitness < before - SMALL)
		log_info("fitness", "node=%s percent=%" PRId64 " before=%" PRId64 " why=\"%s\"",
		    h->node->set->name, h->fitness, before, h->why);
}

void
heartbeat_fitness(struct heartbeat *h)
{
	int64_t now = clock_mono_us(), since = h->fitness_us == 0 ? 0 : now - h->fitness_us;

	if (h->fitness_us != 0 && since < EVERY_BEATS * h->node->set->heartbeat_us)
		return;
	h->fitness_us = now;
	machine_read(&h->machine, now);
	if (h->strategy != NULL)
		judge(h, exp2(-(double)since / HALF_LIFE_US));
}
