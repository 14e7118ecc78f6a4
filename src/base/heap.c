/* The binary heap in an array: the children of slot i are 2i + 1 and 2i + 2.  Every change of an element's
 * slot goes through put(), so that `moved` cannot be forgotten. */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

struct heap {
	heap_less_fn less;
	heap_moved_fn moved;
	void **item;
	size_t count, cap;
};

struct heap *
heap_create(heap_less_fn less, heap_moved_fn moved)
{
	struct heap *h = xcalloc(1, sizeof *h);

	h->less = less;
	h->moved = moved;
	return h;
}

void
heap_destroy(struct heap **h)
{
	if (*h == NULL)
		return;
	free((*h)->item);
	free(*h);
	*h = NULL;
}

static void
put(struct heap *h, size_t slot, void *item)
{
	h->item[slot] = item;
	if (h->moved != NULL)
		h->moved(item, slot);
}

static void
sift_up(struct heap *h, size_t slot, void *item)
{
	while (slot > 0 && h->less(item, h->item[(slot - 1) / 2])) {
		put(h, slot, h->item[(slot - 1) / 2]);
		slot = (slot - 1) / 2;
	}
	put(h, slot, item);
}

static void
sift_down(struct heap *h, size_t slot, void *item)
{
	for (;;) {
		size_t child = 2 * slot + 1;

		if (child >= h->count)
			break;
		if (child + 1 < h->count && h->less(h->item[child + 1], h->item[child]))
			child++;
		if (!h->less(h->item[child], item))
			break;
		put(h, slot, h->item[child]);
		slot = child;
	}
	put(h, slot, item);
}

void
heap_push(struct heap *h, void *item)
{
	if (h->count == h->cap) {
		h->cap = h->cap == 0 ? 64 : h->cap * 2;
		h->item = xrealloc(h->item, h->cap * sizeof *h->item);
	}
	sift_up(h, h->count++, item);
}

void *
heap_min(const struct heap *h)
{
	return h->count == 0 ? NULL : h->item[0];
}

void *
heap_pop(struct heap *h)
{
	void *item = heap_min(h);

	if (item != NULL)
		heap_remove(h, 0);
	return item;
}

void
heap_remove(struct heap *h, size_t slot)
{
	void *gone, *last;

	assert(slot < h->count);
	gone = h->item[slot];
	last = h->item[--h->count];
	/* Unless the last one went, it fills the gap, and may have to move either way from there. */
	if (slot < h->count) {
		if (slot > 0 && h->less(last, h->item[(slot - 1) / 2]))
			sift_up(h, slot, last);
		else
			sift_down(h, slot, last);
	}
	if (h->moved != NULL)
		h->moved(gone, HEAP_NONE);
}

size_t
heap_count(const struct heap *h)
{
	return h->count;
}
