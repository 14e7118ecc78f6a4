/* Which shards of a lane a look reads: see lanes.h. */
#include "node/lanes/lanes.h"

/* So many nodes read a shard of another one in the time of a look, when all have nothing else to do.  Among
 * more of them each reads a part, and in the next look the next one: all shards of all others would be the
 * same work on every node. */
#define WATCHERS 8

/* Reversed bits spread the numbers of nodes, of which most follow each other, over all shards.  So where each
 * begins does not depend on who else is there, which changes, while all go on at the same pace. */
static size_t
first_watched(int64_t node_id)
{
	size_t first = 0;

	for (unsigned bit = 1; bit < PGRAB_SHARDS; bit *= 2)
		first = 2 * first + (((uint64_t)node_id & bit) != 0);
	return first;
}

void
lane_watch(struct lane *l, const struct pgrab_cluster *able, int64_t node_id)
{
	size_t n = able->n_nodes;
	bool preferred = able->self < n; /* who comes after those reads all */

	l->watch.size = preferred && n > WATCHERS ? (WATCHERS * PGRAB_SHARDS + n - 1) / n : PGRAB_SHARDS;
	l->watch.first = first_watched(node_id);
}

int64_t
watch_rounds(size_t nodes)
{
	return nodes <= WATCHERS ? 1 : (int64_t)((nodes + WATCHERS - 1) / WATCHERS);
}

void
lanes_watch_next(struct lanes *ls)
{
	for (size_t i = 0; i < ls->count; i++) {
		struct watch *w = &ls->item[i].watch;

		if (w->read)
			w->first = (w->first + w->size) % PGRAB_SHARDS;
		w->read = false;
	}
}

/* Does a look into this shard find anything? */
static bool
may_hold(const struct lanes *ls, const struct lane *l, unsigned shard)
{
	return !lanes_many(ls) || pgrab_shard_has(&l->soon, shard);
}

size_t
lane_own_shards(const struct lanes *ls, const struct lane *l, uint16_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_shards; i++) {
		uint16_t s = l->shard[(l->turn + i) % l->n_shards];

		if (may_hold(ls, l, s))
			out[n++] = s;
	}
	return n;
}

size_t
lane_rung_shards(const struct lane *l, const struct pgrab_shard_set *bell, uint16_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_shards; i++) {
		if (pgrab_shard_has(bell, l->shard[i]))
			out[n++] = l->shard[i];
	}
	return n;
}

size_t
lane_all_shards(const struct lanes *ls, const struct lane *l, uint64_t chance, uint16_t *out)
{
	size_t n = 0;

	for (unsigned i = 0; i < PGRAB_SHARDS; i++) {
		unsigned s = (unsigned)((i + chance) % PGRAB_SHARDS);

		if (s % ls->loaders == ls->index && may_hold(ls, l, s))
			out[n++] = (uint16_t)s;
	}
	return n;
}

static bool
is_watched(const struct lanes *ls, const struct lane *l, unsigned shard)
{
	size_t place = (shard + PGRAB_SHARDS - l->watch.first) % PGRAB_SHARDS;

	return !pgrab_shard_has(&l->own, shard) &&
	       (place < l->watch.size || pgrab_shard_has(&ls->again, shard));
}

size_t
lane_watched_shards(const struct lanes *ls, const struct lane *l, uint64_t chance, uint16_t *out)
{
	size_t all = lane_all_shards(ls, l, chance, out), n = 0;

	for (size_t i = 0; i < all; i++) {
		if (is_watched(ls, l, out[i]))
			out[n++] = out[i];
	}
	return n;
}
