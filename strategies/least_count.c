/*
 * least_count: nodes with the fewest tasks in hand take first, each up to its quota.
 *
 * Who may take a task is a partition, as in id_hash: every task has exactly one owner and no claim is wasted
 * on a race.  (The other way, all nodes looking at all shards in the order of their load, loses most claims
 * to races, and gives everything to whoever was the least loaded a heartbeat ago.)  How much a node takes at
 * one look is its quota.  The room of the whole cluster is poured over the nodes like water, into the
 * emptiest first; a node that this would leave fuller than the common level takes less, in that proportion,
 * and the level is where all end up.  What it leaves lying for `steal_after` goes to a node with nothing else
 * to do.
 *
 * Load is counted per slot: twice the slots, twice the tasks in hand at the same level.
 *
 * The counts are a heartbeat old: to take nothing above the level would swing the cluster from one end to the
 * other, and nobody else owns the node's shards.  So it holds back by degrees and never takes less than a
 * quarter of its room, and at least one.
 */
#include "turns.h"

#include <float.h>

#define LEAST_PART 4

static double
slots_of(const struct pgrab_node *n)
{
	return n->slots > 0 ? (double)n->slots : 1;
}

static double
load_of(const struct pgrab_node *n)
{
	return n->in_hand > 0 ? (double)n->in_hand : 0;
}

/* How many tasks per slot the nodes hold once `tasks` more are poured in, lowest first.  Nodes that stand
 * above the surface get nothing and do not count for it; taking them out lowers it and may bare others, so
 * this repeats until the surface rests, at most once per node. */
static double
level_after(const struct pgrab_cluster *c, double tasks)
{
	double level = DBL_MAX, before;

	do {
		double load = tasks, slots = 0;

		before = level;
		for (size_t i = 0; i < c->n_nodes; i++) {
			if (load_of(&c->nodes[i]) / slots_of(&c->nodes[i]) < before) {
				load += load_of(&c->nodes[i]);
				slots += slots_of(&c->nodes[i]);
			}
		}
		level = slots > 0 ? load / slots : before;
	} while (level < before);
	return level;
}

static int64_t
quota(void *self, const struct pgrab_cluster *c, int64_t room)
{
	const struct pgrab_node *me;
	double slots = 0, full, target;
	int64_t least = room / LEAST_PART + (room % LEAST_PART != 0), share;

	(void)self;
	if (c->self >= c->n_nodes || room <= 0)
		return 0;
	me = &c->nodes[c->self];
	for (size_t i = 0; i < c->n_nodes; i++)
		slots += slots_of(&c->nodes[i]);
	/* The others' room is not known: as much per slot as ours. */
	target = level_after(c, (double)room * slots / slots_of(me)) * slots_of(me);
	full = load_of(me) + (double)room;
	if (target >= full * (1 - FLT_EPSILON)) /* sums of floats fall short by a hair */
		return room;
	share = (int64_t)((double)room * target / full);
	return share < least ? least : share;
}

const struct pgrab_strategy strategy_least_count = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "least_count",
    .summary = "equal shares; a node with more in hand than the others takes less at a time",
    .shards = deal_in_turn,
    .quota = quota,
};

PGRAB_STRATEGY_EXPORT(strategy_least_count)
