/* What nodes have read of each other, and what the strategy makes of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "world.h"

static bool
can_run(const struct node *n, int group)
{
	return group == 0 || n->site == group - 1;
}

static void
ask_all(struct world *w, struct version *v, int group)
{
	struct pgrab_node node[NODES_MOST];
	uint16_t who[NODES_MOST];
	struct pgrab_cluster c = {.size = sizeof c, .shards = PGRAB_SHARDS, .nodes = node};
	struct pgrab_shard_set set;

	for (size_t i = 0; i < v->n; i++) {
		if (!can_run(&w->node[v->who[i]], group))
			continue;
		who[c.n_nodes] = v->who[i];
		node[c.n_nodes++] = v->node[i];
	}
	memset(v->owner[group], 0xff, sizeof v->owner[group]);
	for (size_t rank = 0; rank < c.n_nodes; rank++) {
		c.self = rank;
		strategy_shards(w->strategy, &c, rank, &set);
		for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
			if (!pgrab_shard_has(&set, s))
				continue;
			w->f.twice += v->owner[group][s] != NOBODY;
			v->owner[group][s] = who[rank];
		}
	}
	for (uint32_t s = 0; s < PGRAB_SHARDS && c.n_nodes > 0; s++)
		w->f.unowned += v->owner[group][s] == NOBODY;
}

/* What moved, and what had to: some nodes have more shards than before. */
static void
count_moves(struct moves *m, const struct version *a, const struct version *b)
{
	m->changes++;
	for (int g = 0; g < GROUPS; g++) {
		int32_t grown[NODES_MOST] = {0};

		for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
			if (a->owner[g][s] == NOBODY || b->owner[g][s] == NOBODY)
				continue;
			m->moved += a->owner[g][s] != b->owner[g][s];
			grown[a->owner[g][s]]--;
			grown[b->owner[g][s]]++;
		}
		for (size_t i = 0; i < NODES_MOST; i++)
			m->must += grown[i] > 0 ? (uint64_t)grown[i] : 0;
	}
}

static struct version *
version_of_now(struct world *w)
{
	struct version *v = xcalloc(1, sizeof *v);

	for (uint32_t i = 0; i < w->plan.nodes; i++) {
		struct node *n = &w->node[i];

		v->rank[i] = -1;
		if (!n->listed)
			continue;
		v->rank[i] = (int16_t)v->n;
		v->who[v->n] = (uint16_t)i;
		/* weight: as a careful operator would set it, who cannot know who falls ill. */
		v->node[v->n++] = (struct pgrab_node){.id = (int64_t)i + 1,
		    .name = n->name,
		    .weight = strcmp(w->plan.strategy, "weight") == 0 ? n->speed * n->slots : 1,
		    .slots = n->slots,
		    .fitness = n->fitness,
		    .work = n->said,
		    .cpu_free = -1,
		    .memory_free = -1};
	}
	for (int g = 0; g < GROUPS; g++)
		ask_all(w, v, g);
	return v;
}

/* A picture that nobody goes by any more. */
static void
release(struct world *w, struct version *v)
{
	struct version **p = &w->versions;

	if (v == NULL || v->readers > 0 || v == w->current)
		return;
	while (*p != v)
		p = &(*p)->next;
	*p = v->next;
	free(v);
}

void
views_end(struct world *w)
{
	struct version *last = w->current;

	for (uint32_t i = 0; i < w->plan.nodes; i++)
		view_drop(w, i);
	w->current = NULL;
	release(w, last);
}

void
views_change(struct world *w)
{
	struct version *before = w->current;

	if (before != NULL && !w->members_changed && !w->fitness_changed && !w->trickle_changed)
		return;
	w->current = version_of_now(w);
	w->current->next = w->versions;
	w->versions = w->current;
	if (before != NULL)
		count_moves(w->members_changed   ? &w->f.members
			    : w->fitness_changed ? &w->f.fitness
						 : &w->f.trickle,
		    before, w->current);
	w->members_changed = w->fitness_changed = w->trickle_changed = false;
	release(w, before);
}

void
view_drop(struct world *w, uint32_t node)
{
	struct version *v = w->node[node].view;

	w->node[node].view = NULL;
	w->node[node].n_own = 0;
	if (v != NULL) {
		v->readers--;
		release(w, v);
	}
}

void
view_take(struct world *w, uint32_t node)
{
	struct node *n = &w->node[node];

	if (n->view == w->current)
		return;
	view_drop(w, node);
	n->view = w->current;
	n->view->readers++;
	for (uint32_t g = 0; g < GROUPS; g++) {
		for (uint32_t s = 0; s < PGRAB_SHARDS; s++) {
			if (n->view->owner[g][s] == node)
				n->own[n->n_own++] = (uint16_t)(g * PGRAB_SHARDS + s);
		}
	}
	n->turn = n->n_own > 0 ? n->turn % n->n_own : 0;
}

/* As the heartbeat does: work fades and goes out, and the strategy says how fit the node is. */
void
view_judge(struct world *w, uint32_t node)
{
	struct node *n = &w->node[node];
	struct version *v = n->view;
	struct pgrab_cluster c = {.size = sizeof c, .shards = PGRAB_SHARDS};
	int64_t before = n->fitness, said;
	char why[128];

	work_fade(&n->work, exp2(-(w->now - n->faded_at) / 300));
	n->faded_at = w->now;
	n->n_said = work_view(&n->work, n->said);
	if (v == NULL || v->rank[node] < 0)
		return;
	for (size_t i = 0; i < v->n; i++)
		v->node[i].n_work = w->node[v->who[i]].n_said;
	c.n_nodes = v->n;
	c.nodes = v->node;
	c.self = (size_t)v->rank[node];
	said = v->node[c.self].fitness;
	v->node[c.self].fitness = before;
	n->fitness = strategy_fitness(w->strategy, &c, why, sizeof why);
	v->node[c.self].fitness = said;
	if (n->fitness == before)
		return;
	if (n->fitness < SICK_BELOW && before < SICK_BELOW) {
		w->trickle_changed = true;
	} else {
		w->fitness_changed = true;
		w->f.words++;
	}
	if (node == w->patient && w->since >= 0 &&
	    (n->sick ? n->fitness < SICK_BELOW : n->fitness >= SICK_BELOW)) {
		double *longest = n->sick ? &w->f.sunk : &w->f.risen, took = w->now - w->since;

		*longest = took > *longest ? took : *longest;
		w->since = -1;
	}
}
