#include "core/hold.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/thread.h"

struct hold {
	struct holds *list;
	int64_t incarnation, batch;
	_Atomic unsigned refs;
	_Atomic bool keep, doubted;
};

void
holds_init(struct holds *hs)
{
	*hs = (struct holds){0};
	lock_init(&hs->lock);
}

void
holds_fini(struct holds *hs)
{
	free(hs->over);
	hs->over = NULL;
	PTHREAD_OK(pthread_mutex_destroy(&hs->lock));
}

struct hold *
hold_open(struct holds *hs, int64_t incarnation)
{
	struct hold *h = xcalloc(1, sizeof *h);

	h->list = hs;
	h->incarnation = incarnation;
	atomic_init(&h->refs, 1);
	h->batch = atomic_fetch_add(&hs->last_batch, 1) + 1;
	return h;
}

int64_t
hold_batch(const struct hold *h)
{
	return h->batch;
}

int64_t
holds_last(struct holds *hs)
{
	return atomic_load(&hs->last_batch);
}

struct hold *
hold_ref(struct hold *h)
{
	atomic_fetch_add(&h->refs, 1);
	return h;
}

void
hold_keep(struct hold *h)
{
	if (h != NULL)
		atomic_store(&h->keep, true);
}

void
hold_doubt(struct hold *h)
{
	if (h != NULL)
		atomic_store(&h->doubted, true);
}

void
hold_unref(struct hold *h)
{
	if (h == NULL || atomic_fetch_sub(&h->refs, 1) > 1)
		return;
	if (!atomic_load(&h->keep))
		holds_give_back(h->list, h->incarnation, atomic_load(&h->doubted), &h->batch, 1);
	free(h);
}

bool
holds_doubted(struct holds *hs)
{
	bool any = false;

	WITH_LOCK(&hs->lock);
	for (size_t i = 0; i < hs->n_over; i++)
		any = any || hs->over[i].doubted;
	return any;
}

size_t
holds_take_over(struct holds *hs, int64_t incarnation, bool doubted, int64_t *out, size_t max)
{
	size_t taken = 0, kept = 0;

	WITH_LOCK(&hs->lock);
	for (size_t i = 0; i < hs->n_over; i++) {
		if (hs->over[i].incarnation != incarnation)
			continue;
		if (taken < max && (doubted || !hs->over[i].doubted))
			out[taken++] = hs->over[i].batch;
		else
			hs->over[kept++] = hs->over[i];
	}
	hs->n_over = kept;
	return taken;
}

void
holds_give_back(struct holds *hs, int64_t incarnation, bool doubted, const int64_t *batch, size_t n)
{
	WITH_LOCK(&hs->lock);
	if (hs->n_over + n > hs->room) {
		hs->room = 2 * (hs->n_over + n) + 64;
		hs->over = xrealloc(hs->over, hs->room * sizeof *hs->over);
	}
	for (size_t i = 0; i < n; i++)
		hs->over[hs->n_over++] = (struct hold_over){incarnation, batch[i], doubted};
}
