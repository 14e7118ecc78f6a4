/* Of many lanes, which shards are worth a look: see lanes.h. */
#include <string.h>

#include "node/lanes/lanes.h"

/* A node that may run no more lanes than this reads all shards of all of them in each look. */
#define LANES_PER_LOOK (LANES_PROBES_MAX / PGRAB_SHARDS)

bool
lanes_many(const struct lanes *ls)
{
	return ls->count > LANES_PER_LOOK;
}

static size_t
soon_count(const struct lanes *ls)
{
	size_t n = 0;

	for (size_t i = 0; i < ls->count; i++) {
		for (size_t w = 0; w < PGRAB_SHARD_SET_WORDS; w++)
			n += (size_t)__builtin_popcountll(ls->item[i].soon.word[w]);
	}
	return n;
}

void
lanes_carry_over(struct lanes *ls, const struct lanes *before)
{
	for (size_t i = 0; i < ls->count; i++) {
		const struct lane *was = lanes_find(before, ls->item[i].row->lane);

		if (was != NULL) {
			ls->item[i].turns = was->turns;
			ls->item[i].watch.first = was->watch.first;
		}
		if (was != NULL && lanes_many(before))
			ls->item[i].soon = was->soon;
		else
			memset(&ls->item[i].soon, 0xff, sizeof ls->item[i].soon);
	}
	ls->survey_turn = ls->survey_turn < ls->count ? ls->survey_turn : 0;
	ls->fit = !lanes_many(ls) || soon_count(ls) <= LANES_PROBES_MAX;
}

size_t
lanes_to_survey(const struct lanes *ls, const char **keys)
{
	size_t n = 0;

	for (size_t i = ls->survey_turn; i < ls->count && n < SURVEY_STEPS; i++)
		keys[n++] = ls->item[i].row->key;
	return n;
}

bool
lanes_surveyed(struct lanes *ls, const struct pgrab_shard_set *soon, size_t n)
{
	size_t from = ls->survey_turn;

	for (size_t i = 0; i < n; i++)
		ls->item[from + i].soon = soon[i];
	ls->survey_turn = from + n < ls->count ? from + n : 0;
	ls->fit = soon_count(ls) <= LANES_PROBES_MAX;
	return ls->survey_turn == 0;
}

void
lanes_found(struct lanes *ls, const struct candidate *c, size_t n)
{
	struct lane *l = NULL;

	for (size_t i = 0; i < n; i++) {
		if (l == NULL || l->row->lane != c[i].lane)
			l = lanes_find(ls, c[i].lane);
		if (l != NULL)
			pgrab_shard_add(&l->soon, c[i].shard);
	}
}
