#include "node/lanes/lanes.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/run.h"
#include "strategy/host.h"

/* Rows of one lane in one look: enough to find the best of a small backlog; where a bigger batch gains no
 * more. */
#define LANE_ROWS_MIN 128
#define LANE_ROWS_MAX 1000
#define ROWS_PER_LOOK 64000

/* This many shards fill a look; each gives its oldest, and the next look begins behind the last one.  So a
 * big backlog is worked off by age, roughly, and what waits longest is soon compared with more important
 * work. */
#define SHARDS_PER_LOOK 8

void
lanes_init(struct lanes *ls, unsigned index, unsigned loaders)
{
	*ls = (struct lanes){.index = index, .loaders = loaders};
}

void
lanes_fini(struct lanes *ls)
{
	free(ls->item);
	free(ls->by_number);
	ls->item = NULL;
	ls->by_number = NULL;
	ls->count = 0;
}

/* The cluster as the strategy sees it for one lane: only who is able, and, if not_busy says so, not busy. */
static void
narrow(const struct pgrab_cluster *c, const struct lane_row *row, const bool *not_busy,
    struct pgrab_node *node, struct pgrab_cluster *out)
{
	*out = *c;
	out->nodes = node;
	out->n_nodes = 0;
	out->self = SIZE_MAX;
	for (size_t i = 0; i < c->n_nodes; i++) {
		bool self = i == c->self, able = self && row->late_us == 0;

		for (size_t k = 0; k < row->n_able && !able; k++)
			able = row->able[k] == c->nodes[i].id;
		if (!able || (not_busy != NULL && not_busy[i] && !self))
			continue;
		if (self)
			out->self = out->n_nodes;
		node[out->n_nodes++] = c->nodes[i];
	}
	if (out->self == SIZE_MAX)
		out->self = out->n_nodes;
}

static bool
is_busy(const struct pgrab_cluster *c, const bool *busy, int64_t id)
{
	for (size_t i = 0; i < c->n_nodes; i++) {
		if (c->nodes[i].id == id)
			return busy[i];
	}
	return false;
}

/* What this node reads of one lane: its own shards, and its part of those whose owners are busy. */
static void
own_of(struct strategy *s, const struct pgrab_cluster *c, struct lane *l, const bool *busy,
    struct pgrab_node *node)
{
	struct pgrab_cluster able, rest;
	struct pgrab_shard_set theirs = {0}, more;

	narrow(c, l->row, NULL, node, &able);
	lane_watch(l, &able, c->self < c->n_nodes ? c->nodes[c->self].id : 0);
	strategy_shards(s, &able, able.self, &l->own);
	if (busy == NULL || c->self >= c->n_nodes || busy[c->self])
		return;
	for (size_t i = 0; i < able.n_nodes; i++) {
		if (!is_busy(c, busy, node[i].id))
			continue;
		strategy_shards(s, &able, i, &more);
		for (size_t w = 0; w < PGRAB_SHARD_SET_WORDS; w++)
			theirs.word[w] |= more.word[w];
	}
	narrow(c, l->row, busy, node, &rest);
	strategy_shards(s, &rest, rest.self, &more);
	for (size_t w = 0; w < PGRAB_SHARD_SET_WORDS; w++)
		l->own.word[w] |= more.word[w] & theirs.word[w];
}

static bool
same_able(const struct lane_row *a, const struct lane_row *b)
{
	return a->n_able == b->n_able &&
	       (a->n_able == 0 || memcmp(a->able, b->able, a->n_able * sizeof *a->able) == 0);
}

static void
deal_shards(struct lanes *ls, struct lane *l, const struct pgrab_cluster *c)
{
	l->n_shards = 0;
	for (unsigned s = 0; s < PGRAB_SHARDS; s++) {
		if (pgrab_shard_has(&l->own, s) && s % ls->loaders == ls->index)
			l->shard[l->n_shards++] = (uint16_t)s;
	}
	/* Nodes whose shards overlap should not all begin with the same one. */
	l->turn = c->n_nodes == 0 || l->n_shards == 0 ? 0 : c->self * l->n_shards / c->n_nodes % l->n_shards;
}

static int
by_band(const void *a, const void *b)
{
	const struct lane *x = a, *y = b;
	if (x->row->band != y->row->band)
		return x->row->band > y->row->band ? -1 : 1;
	return x->row->lane < y->row->lane ? -1 : x->row->lane > y->row->lane;
}

static void
forget_marks(struct lanes *ls)
{
	for (size_t i = 0; i < ls->count; i++) {
		for (unsigned s = 0; s < PGRAB_SHARDS; s++)
			ls->item[i].mark[s] = LOOK_NO_MARK;
	}
}

void
lanes_refresh(struct lanes *ls, const struct lane_row *rows, size_t n, struct strategy *s,
    const struct pgrab_cluster *c, const bool *busy)
{
	struct pgrab_node *node = xcalloc(c->n_nodes + 1, sizeof *node);
	struct lanes before = *ls;

	ls->item = xcalloc(n + 1, sizeof *ls->item);
	ls->count = 0;
	for (size_t i = 0; i < n; i++) {
		struct lane *l = &ls->item[ls->count++];

		l->row = &rows[i];
		if (i > 0 && same_able(&rows[i - 1], &rows[i])) {
			l->own = l[-1].own;
			l->watch = l[-1].watch;
		} else {
			own_of(s, c, l, busy, node);
		}
		deal_shards(ls, l, c);
	}
	qsort(ls->item, ls->count, sizeof *ls->item, by_band);
	lanes_index(ls);
	lanes_carry_over(ls, &before);
	forget_marks(ls);
	lanes_fini(&before);
	free(node);
}

bool
lanes_fit(const struct lanes *ls)
{
	return ls->fit;
}

/* The fewest rows to ask a lane with a backlog for; all such lanes share what one may be asked for. */
static int64_t
least_rows(const struct lanes *ls)
{
	int64_t backlogs = 0;

	for (size_t i = 0; i < ls->count; i++)
		backlogs += ls->item[i].backlog;
	return backlogs * LANE_ROWS_MIN <= LANE_ROWS_MAX ? LANE_ROWS_MIN : LANE_ROWS_MAX / backlogs;
}

/* Is there room for what is due? */
static bool
has_room(const struct lanes *ls, const struct lane *l)
{
	return l->room > 0 ||
	       (!need_is_small(&l->row->need) && ls->large != NULL && ls->large[l->row->crew] > 0);
}

/* Rows to ask a lane for. */
static int64_t
rows_wanted(const struct lane *l, int64_t timed, int64_t least)
{
	int64_t wanted = l->backlog ? l->room : l->room + timed;

	if (l->backlog && l->room > 0 && wanted < least)
		wanted = least;
	return wanted < LANE_ROWS_MAX ? wanted : LANE_ROWS_MAX;
}

/* Rows of each of n shards, where a lane is asked for so many: a few shards fill a look. */
static int64_t
slice_of(int64_t wanted, size_t n)
{
	return n < SHARDS_PER_LOOK ? wanted : wanted / SHARDS_PER_LOOK + 1;
}

void
lanes_part(struct lanes *ls, enum lanes_part part, const struct pgrab_shard_set *bell, const int64_t *room,
    int64_t timed, uint64_t chance, struct look_query *q)
{
	look_reset(q);
	lanes_add(ls, part, bell, room, timed, chance, q);
}

/* What to read of one lane; nothing: false. */
static bool
add_lane(struct lanes *ls, struct lane *l, enum lanes_part part, const struct pgrab_shard_set *bell,
    uint64_t chance, int64_t wanted, struct look_query *q)
{
	struct look_lane *to = look_add(q, l->row, l->mark);

	to->wanted = wanted;
	to->due_only = l->backlog;
	/* Only a backlog is worth turns: without one, all that is due is taken. */
	l->turns.asked = l->row->shared && l->backlog && part == LANES_OWN && turns_worthwhile(l);
	if (l->turns.asked)
		turns_ask(l, to);
	to->n_shards = part == LANES_OWN    ? lane_own_shards(ls, l, to->shard)
		       : part == LANES_RUNG ? lane_rung_shards(l, bell, to->shard)
					    : lane_watched_shards(ls, l, chance, to->shard);
	l->backlog = l->backlog && part != LANES_OWN; /* unless it is found again */
	l->watch.read = l->watch.read || part == LANES_OTHERS;
	if (to->n_shards == 0)
		q->n_lanes--;
	return to->n_shards > 0;
}

/* All lanes of a look share what it may return. */
static void
share_rows(struct look_query *q, size_t from)
{
	int64_t most = from < q->n_lanes ? ROWS_PER_LOOK / (int64_t)(q->n_lanes - from) : 0;

	for (size_t i = from; i < q->n_lanes; i++) {
		struct look_lane *to = &q->lane[i];

		to->wanted = to->wanted < most + 1 ? to->wanted : most + 1;
		if (!to->turns)
			to->slice = slice_of(to->wanted, to->n_shards);
	}
}

void
lanes_add(struct lanes *ls, enum lanes_part part, const struct pgrab_shard_set *bell, const int64_t *room,
    int64_t timed, uint64_t chance, struct look_query *q)
{
	size_t from = q->n_lanes, probes = 0, looked = 0;
	int64_t least = least_rows(ls);

	for (; looked < ls->count && probes <= LANES_PROBES_MAX - PGRAB_SHARDS; looked++) {
		struct lane *l = &ls->item[(ls->turn + looked) % ls->count];
		int64_t wanted;

		if (ls->spare && l->dry && part == LANES_OWN)
			continue;
		l->room = room[l->row->crew];
		wanted = rows_wanted(l, timed, least);
		wanted = wanted <= 0 && has_room(ls, l) ? 1 : wanted;
		if (wanted <= 0 || (l->row->crew > 0 && !has_room(ls, l))) {
			l->dry = false; /* so far as anybody knows */
			continue;
		}
		if (add_lane(ls, l, part, bell, chance, wanted, q))
			probes += q->lane[q->n_lanes - 1].n_shards;
	}
	share_rows(q, from);
	if (part == LANES_OWN && ls->count > 0)
		ls->turn = looked == ls->count ? 0 : (ls->turn + looked) % ls->count;
}

void
lanes_urgent(
    struct lanes *ls, const int64_t *room, const int *from_band, uint64_t chance, struct look_query *q)
{
	size_t probes = 0;

	look_reset(q);
	for (size_t i = 0; i < ls->count && probes <= LANES_PROBES_MAX - PGRAB_SHARDS; i++) {
		struct lane *l = &ls->item[i];
		struct look_lane *to;

		if (room[l->row->crew] <= 0 || l->row->band < from_band[l->row->crew] ||
		    !need_is_small(&l->row->need))
			continue;
		to = look_add(q, l->row, l->mark);
		to->wanted = room[l->row->crew];
		to->due_only = true;
		to->n_shards = lane_all_shards(ls, l, chance, to->shard);
		probes += to->n_shards;
		q->n_lanes -= to->n_shards == 0;
	}
	share_rows(q, 0);
}

static void
begin_behind(struct lane *l, unsigned shard)
{
	for (size_t i = 0; i < l->n_shards; i++) {
		if (l->shard[i] == shard)
			l->turn = (i + 1) % l->n_shards;
	}
}

/* What of the rows of one lane was taken, and where its next look begins. */
static void
lane_progress(struct lane *l, const struct look_lane *asked, const struct candidate *c, size_t n)
{
	bool complete = true; /* so far, in this shard */
	int64_t due = 0;

	l->dry = false;
	begin_behind(l, c[n - 1].shard);
	if (l->turns.asked)
		return; /* see turns_taken() */
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || c[i - 1].shard != c[i].shard)
			complete = true;
		complete = complete && (c[i].chosen || c[i].refused) && !c[i].misfired;
		if (complete && c[i].late_us >= 0)
			l->mark[c[i].shard] = c[i].due_us;
		due += c[i].late_us >= 0;
	}
	l->backlog = due > 0 && (due >= l->room || due >= asked->wanted);
}

void
lanes_progress(struct lanes *ls, const struct look_query *q, const struct candidate *c, size_t n)
{
	size_t from = 0, at = 0;

	for (size_t i = 0; i < q->n_lanes; i++) {
		struct lane *l = lanes_find(ls, q->lane[i].lane);

		if (l != NULL)
			l->dry = !q->lane[i].turns; /* unless something is found of it */
		if (l != NULL && q->lane[i].turns)
			turns_taken(l, &q->lane[i]);
	}
	while (from < n) {
		size_t to = from;

		while (to < n && c[to].lane == c[from].lane)
			to++;
		struct lane *l = lanes_find(ls, c[from].lane);

		if (l != NULL)
			lane_progress(l, look_lane_of(q, c[from].lane, &at), &c[from], to - from);
		from = to;
	}
}
