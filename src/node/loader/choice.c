/* Which of the rows that a look has read are taken.  No connection; the thread itself is loader.c. */
#include "node/loader/private.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
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
	    .late_us = c->late_us,
	    .has_require = c->has_require};

	return strategy_accept(l->strategy, &l->cluster->view, &t);
}

/* How long until a large one may be taken; 0: now; INT64_MAX: when there is more room.  It is never taken
 * ahead of its time. */
static int64_t
until_room(const struct loader *l, const struct candidate *c, const struct room *room)
{
	size_t crew = lanes_crew(&l->lanes, c->lane);
	struct need left = {.slots = room->ready[crew], .memory = room->memory};
	int64_t late_us = LARGE_LATE_US - c->late_us;
	int64_t rest_us = atomic_load(&l->node->rests_until_us[crew]) - clock_mono_us();

	if (c->late_us < 0)
		return -c->late_us;
	if (need_fits(&c->need, &left))
		return 0;
	if (c->need.slots > atomic_load(&l->node->slots[crew]) || room->large[crew] <= 0)
		return INT64_MAX;
	if (lanes_others_able(&l->lanes, c->lane))
		late_us += l->node->set->steal_after_us;
	late_us = rest_us > late_us ? rest_us : late_us;
	return late_us > 0 ? late_us : 0;
}

/* Would it pass by the run that its crew is kept free for? */
static bool
passes_by(const struct loader *l, const struct candidate *c, const struct room *room)
{
	int64_t before = room->before[lanes_crew(&l->lanes, c->lane)];

	return before != INT64_MAX && c->late_us >= 0 &&
	       rank_us(l->looked_us - c->late_us, c->band) >= before;
}

static int64_t
hold(struct loader *l, struct candidate *c, const struct room *room)
{
	int64_t later_us = passes_by(l, c, room)     ? INT64_MAX
			   : need_is_small(&c->need) ? 0
						     : until_room(l, c, room);

	if (later_us > 0) {
		c->held = true;
		l->wants_more[lanes_crew(&l->lanes, c->lane)] = true;
	}
	return later_us;
}

int64_t
loader_put_off(struct loader *l, struct candidate *c, size_t n, const struct room *room)
{
	int64_t first_us = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		int64_t later_us = lanes_late_us(&l->lanes, c[i].lane, -l->node->set->lookahead_us);

		later_us -= c[i].late_us;
		c[i].need = lanes_need(&l->lanes, c[i].lane);
		c[i].refused = later_us > 0;
		if (!c[i].refused)
			later_us = hold(l, &c[i], room);
		if (later_us > 0 && later_us < first_us)
			first_us = later_us;
	}
	return first_us;
}

static void
set_ages(struct loader *l, enum lanes_part part, struct candidate *c, size_t n)
{
	size_t at = 0;

	for (size_t i = 0; i < n; i++)
		c[i].age_us = c[i].late_us;
	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && c[to].lane == c[from].lane;)
			to++;
		const struct look_lane *asked = look_lane_of(&l->query, c[from].lane, &at);
		struct lane *lane = lanes_find(&l->lanes, asked->lane);

		if (asked->turns)
			turns_place(lane, asked, &c[from], to - from);
		else if (part != LANES_URGENT) /* runs give way to that by how long it has waited */
			turns_behind(lane, &c[from], to - from);
	}
}

/* Sets ->chosen on what the strategy accepts and the room allows, the best first; ->refused on what is not
 * for this node. */
size_t
loader_choose(struct loader *l, enum lanes_part part, struct candidate *c, size_t n, struct room room)
{
	struct candidate **rank = xcalloc(n + 1, sizeof *rank);
	size_t chosen = 0;

	set_ages(l, part, c, n);
	for (size_t i = 0; i < n; i++)
		rank[i] = &c[i];
	qsort(rank, n, sizeof *rank, by_rank);
	for (size_t i = 0; i < n; i++) {
		size_t crew = lanes_crew(&l->lanes, rank[i]->lane);
		int64_t *left = rank[i]->late_us >= 0 ? &room.ready[crew] : &room.timed;
		bool small = need_is_small(&rank[i]->need);

		if ((small && *left <= 0) || rank[i]->refused || rank[i]->held || hold(l, rank[i], &room) > 0)
			continue;
		rank[i]->refused = doubts_wait(&l->node->doubts, rank[i]->id) || !accepts(l, rank[i]);
		if (rank[i]->refused) {
			rank[i]->misfired = false; /* for another node to settle */
			continue;
		}
		rank[i]->refused = rank[i]->misfired;
		if (rank[i]->misfired)
			continue;
		*left -= rank[i]->need.slots;
		room.memory -= rank[i]->need.memory;
		room.large[crew] -= !small && (*left < 0 || (rank[i]->need.memory > 0 && room.memory < 0));
		rank[i]->chosen = true;
		chosen++;
	}
	free(rank);
	return chosen;
}

/* The n candidates of one lane.  After the last one of a shard come only later ones.  Where one is held for
 * lack of room, so are those behind it, and another look finds them again. */
static bool
lane_left_behind(const struct look_query *q, const struct candidate *c, size_t n, size_t *at)
{
	const struct look_lane *asked = look_lane_of(q, c->lane, at);
	int64_t of_shard = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].held)
			return false;
	}
	if ((int64_t)n >= asked->wanted || asked->turns) /* turns end when a look without them has */
		return true;
	for (size_t i = 0; i < n; i++) {
		bool due = c[i].late_us >= 0;

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
	size_t at = 0;

	for (size_t from = 0, to; from < n; from = to) {
		for (to = from; to < n && c[to].lane == c[from].lane;)
			to++;
		if (lane_left_behind(&l->query, &c[from], to - from, &at))
			l->wants[lanes_crew(&l->lanes, c[from].lane)] = any = true;
	}
	return any;
}

bool
loader_moved(const struct loader *l, const struct candidate *c, size_t n, struct room room)
{
	for (size_t i = 0; i < n; i++) {
		if (!c[i].misfired && !c[i].held &&
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
		found += c[i].late_us >= 0 && lanes_crew(&l->lanes, c[i].lane) == 0;
	return found;
}

static int
small_by_id(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	bool small_x = need_is_small(&x->need), small_y = need_is_small(&y->need);

	return small_x != small_y ? small_y - small_x : loader_by_id(x, y);
}

/* By id, which is the lock order. */
size_t
loader_keep_chosen(struct candidate *c, size_t n)
{
	size_t kept = 0, small = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].chosen)
			c[kept++] = c[i];
	}
	if (kept > 0) /* c may be NULL */
		qsort(c, kept, sizeof *c, small_by_id);
	while (small < kept && need_is_small(&c[small].need))
		small++;
	return small;
}
