/*
 * Which of the rows that a look has read are taken.  No connection, no clock; the thread itself is loader.c.
 */
#include "node/loader/private.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "node/context.h"
#include "strategy/host.h"

int
loader_by_id(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

static int
by_rank(const void *a, const void *b)
{
	const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
	int64_t rank_x = rank_us(-x->age_us, x->band), rank_y = rank_us(-y->age_us, y->band);

	if (rank_x != rank_y)
		return rank_x < rank_y ? -1 : 1;
	return loader_by_id(x, y);
}

static bool
accepts(struct loader *l, const struct candidate *c)
{
	struct pgrab_candidate t = {.size = sizeof t,
	    .id = c->id,
	    .shard = c->shard,
	    .priority = c->priority,
	    .overdue_us = c->overdue_us,
	    .has_require = c->has_require};

	return strategy_accept(l->strategy, &l->cluster->view, &t);
}

int64_t
loader_put_off(const struct loader *l, struct candidate *c, size_t n)
{
	int64_t first_us = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		int64_t later_us = lanes_late_us(&l->lanes, c[i].lane, -l->node->set->lookahead_us);

		later_us -= c[i].overdue_us;
		if (later_us <= 0)
			continue;
		c[i].refused = true;
		if (later_us < first_us)
			first_us = later_us;
	}
	return first_us;
}

static const struct look_lane *
lane_of(const struct look_query *q, int64_t number)
{
	size_t i = 0;

	while (i < q->n_lanes && q->lane[i].lane != number)
		i++;
	assert(i < q->n_lanes); /* the look asked for no other */
	return &q->lane[i];
}

static void
set_ages(struct loader *l, struct candidate *c, size_t n)
{
	for (size_t i = 0; i < n; i++)
		c[i].age_us = c[i].overdue_us;
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && c[to].lane == c[from].lane;)
			to++;
		const struct look_lane *asked = lane_of(&l->query, c[from].lane);
		struct lane *lane = asked->turns ? lanes_find(&l->lanes, asked->lane) : NULL;

		if (lane != NULL)
			turns_place(lane, asked, &c[from], to - from);
	}
}

/* Sets ->chosen on what the strategy accepts and the room allows, the best first; ->refused on what is not
 * for this node. */
size_t
loader_choose(struct loader *l, struct candidate *c, size_t n, struct room room)
{
	struct candidate **rank = xcalloc(n + 1, sizeof *rank);
	size_t chosen = 0;

	set_ages(l, c, n);
	for (size_t i = 0; i < n; i++)
		rank[i] = &c[i];
	qsort(rank, n, sizeof *rank, by_rank);
	for (size_t i = 0; i < n; i++) {
		int64_t *left = rank[i]->overdue_us >= 0 ? &room.ready[lanes_crew(&l->lanes, rank[i]->lane)]
							 : &room.timed;

		if (*left <= 0 || rank[i]->refused)
			continue;
		rank[i]->refused = doubts_wait(&l->node->doubts, rank[i]->id) || !accepts(l, rank[i]);
		if (rank[i]->refused) {
			rank[i]->misfired = false; /* for another node to settle */
			continue;
		}
		rank[i]->refused = rank[i]->misfired;
		if (rank[i]->misfired)
			continue;
		--*left;
		rank[i]->chosen = true;
		chosen++;
	}
	free(rank);
	return chosen;
}

/* The n candidates of one lane.  After the last one of a shard come only later ones. */
static bool
lane_left_behind(const struct look_query *q, const struct candidate *c, size_t n)
{
	const struct look_lane *asked = lane_of(q, c->lane);
	int64_t of_shard = 0;

	if ((int64_t)n >= asked->wanted || asked->turns) /* turns end when a look without them has */
		return true;
	for (size_t i = 0; i < n; i++) {
		bool due = c[i].overdue_us >= 0;

		of_shard = i > 0 && c[i].shard == c[i - 1].shard ? of_shard + 1 : 1;
		if (of_shard >= asked->slice ? due || c[i].chosen : due && !c[i].chosen && !c[i].refused)
			return true;
	}
	return false;
}

bool
loader_left_behind(struct loader *l, const struct candidate *c, size_t n)
{
	bool any = false;

	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && c[to].lane == c[from].lane;)
			to++;
		if (lane_left_behind(&l->query, &c[from], to - from))
			l->wants[lanes_crew(&l->lanes, c[from].lane)] = any = true;
	}
	return any;
}

bool
loader_moved(const struct loader *l, const struct candidate *c, size_t n, struct room room)
{
	for (size_t i = 0; i < n; i++) {
		if (!c[i].misfired &&
		    (c[i].chosen || c[i].refused || room.ready[lanes_crew(&l->lanes, c[i].lane)] > 0))
			return true;
	}
	return false;
}

int64_t
loader_for_workers(const struct loader *l, const struct candidate *c, size_t n)
{
	int64_t found = 0;

	for (size_t i = 0; i < n; i++)
		found += c[i].overdue_us >= 0 && lanes_crew(&l->lanes, c[i].lane) == 0;
	return found;
}

/* Moves the chosen to the front, sorted by id, the lock order. */
void
loader_keep_chosen(struct candidate *c, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].chosen)
			c[kept++] = c[i];
	}
	if (kept > 0) /* c may be NULL */
		qsort(c, kept, sizeof *c, loader_by_id);
}
