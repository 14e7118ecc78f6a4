/* Which shards of a lane a look reads: see lanes.h. */
#include "node/lanes/lanes.h"

/* So many nodes read a shard of another one in a poll, when all have nothing else to do.  Among more of them
 * each reads a part, the next look the next one: all shards of all others would be 300 times the same. */
#define WATCHERS 8

void
lane_watch(struct lane *l, const struct pgrab_cluster *able)
{
	size_t n = able->n_nodes;
	bool one_of_many =
	    n > WATCHERS && able->self < n; /* who comes after those that are preferred reads all */

	l->watch.size = one_of_many ? (WATCHERS * PGRAB_SHARDS + n - 1) / n : PGRAB_SHARDS;
	l->watch.first = one_of_many ? able->self * PGRAB_SHARDS / n : 0;
}

void
lanes_watch_next(struct lanes *ls)
{
	for (size_t i = 0; i < ls->count; i++) {
		struct watch *w = &ls->item[i].watch;

		w->first = (w->first + w->size) % PGRAB_SHARDS;
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
