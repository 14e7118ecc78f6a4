/* A lane by its number: a look may name thousands.  See lanes.h. */
#include <stdlib.h>

#include "base/alloc.h"
#include "node/lanes/lanes.h"

static int
by_number(const void *key, const void *item)
{
	int64_t number = *(const int64_t *)key, lane = (*(struct lane *const *)item)->row->lane;

	return number < lane ? -1 : number > lane;
}

static int
compare_numbers(const void *a, const void *b)
{
	return by_number(&(*(struct lane *const *)a)->row->lane, b);
}

struct lane *
lanes_find(const struct lanes *ls, int64_t number)
{
	struct lane **found =
	    ls->count == 0 ? NULL
			   : bsearch(&number, ls->by_number, ls->count, sizeof(struct lane *), by_number);

	return found == NULL ? NULL : *found;
}

void
lanes_index(struct lanes *ls)
{
	ls->by_number = xcalloc(ls->count + 1, sizeof(struct lane *));
	for (size_t i = 0; i < ls->count; i++)
		ls->by_number[i] = &ls->item[i];
	qsort(ls->by_number, ls->count, sizeof(struct lane *), compare_numbers);
}

bool
lanes_own(const struct lanes *ls, int64_t number, unsigned shard)
{
	const struct lane *l = lanes_find(ls, number);

	return l != NULL && pgrab_shard_has(&l->own, shard);
}

int64_t
lanes_late_us(const struct lanes *ls, int64_t number, int64_t fallback)
{
	const struct lane *l = lanes_find(ls, number);

	return l != NULL && l->row->late_us > 0 ? l->row->late_us : fallback;
}

struct need
lanes_need(const struct lanes *ls, int64_t number)
{
	const struct lane *l = lanes_find(ls, number);

	return l != NULL ? l->row->need : (struct need){.slots = 1};
}

bool
lanes_any_large(const struct lanes *ls)
{
	for (size_t i = 0; ls->large != NULL && i < ls->count; i++) {
		if (!need_is_small(&ls->item[i].row->need) && ls->large[ls->item[i].row->crew] > 0)
			return true;
	}
	return false;
}

bool
lanes_others_able(const struct lanes *ls, int64_t number)
{
	const struct lane *l = lanes_find(ls, number);

	return l != NULL && l->row->n_able > 1;
}

size_t
lanes_crew(const struct lanes *ls, int64_t number)
{
	const struct lane *l = lanes_find(ls, number);

	return l != NULL ? l->row->crew : 0;
}

bool
lanes_has_crew(const struct lanes *ls, size_t crew)
{
	for (size_t i = 0; i < ls->count; i++) {
		if (ls->item[i].row->crew == crew)
			return true;
	}
	return false;
}
