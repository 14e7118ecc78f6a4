/*
 * The heap against a sorted array.  The seed is printed; PGRAB_TEST_SEED repeats a run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/heap.h"
#include "random.h"

enum { ITEMS = 400, STEPS = 20000, KEYS = 40 /* so that many are equal */ };

struct item {
	int due;
	int id;
	size_t slot;
};

static bool
item_less(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->due != y->due ? x->due < y->due : x->id < y->id;
}

static void
item_moved(void *item, size_t slot)
{
	((struct item *)item)->slot = slot;
}

/* The same content, always sorted. */
struct model {
	struct item *item[ITEMS];
	size_t count;
};

static void
model_add(struct model *m, struct item *it)
{
	size_t i = m->count++;

	for (; i > 0 && item_less(it, m->item[i - 1]); i--)
		m->item[i] = m->item[i - 1];
	m->item[i] = it;
}

static void
model_remove(struct model *m, size_t at)
{
	memmove(m->item + at, m->item + at + 1, (m->count - at - 1) * sizeof m->item[0]);
	m->count--;
}

static void
push(struct heap *h, struct model *m, struct item *it, int due)
{
	it->due = due;
	heap_push(h, it);
	model_add(m, it);
	assert_true(it->slot < heap_count(h));
}

static void
remove_any(struct heap *h, struct model *m, size_t at)
{
	struct item *it = m->item[at];

	heap_remove(h, it->slot);
	assert_true(it->slot == HEAP_NONE);
	model_remove(m, at);
}

static void
remove_min(struct heap *h, struct model *m)
{
	struct item *it = heap_pop(h);

	if (m->count == 0) {
		assert_null(it);
		return;
	}
	assert_ptr_equal(it, m->item[0]);
	assert_true(it->slot == HEAP_NONE);
	model_remove(m, 0);
}

/* The item in the last slot of the array: nothing may be moved for it. */
static void
remove_last_slot(struct heap *h, struct model *m)
{
	for (size_t i = 0; i < m->count; i++) {
		if (m->item[i]->slot == m->count - 1) {
			remove_any(h, m, i);
			return;
		}
	}
	assert_int_equal(m->count, 0);
}

static void
check(struct heap *h, struct model *m)
{
	bool seen[ITEMS] = {false};

	assert_int_equal(heap_count(h), m->count);
	assert_ptr_equal(heap_min(h), m->count > 0 ? m->item[0] : NULL);
	for (size_t i = 0; i < m->count; i++) {
		assert_true(m->item[i]->slot < m->count);
		assert_false(seen[m->item[i]->slot]);
		seen[m->item[i]->slot] = true;
	}
}

static void
heap_answers_like_a_sorted_array(void **state)
{
	static struct item items[ITEMS];
	struct heap *h = heap_create(item_less, item_moved);
	struct model m = {.count = 0};
	unsigned bias = 5;

	random_start();
	for (int i = 0; i < ITEMS; i++)
		items[i] = (struct item){.id = i, .slot = HEAP_NONE};
	for (int step = 0; step < STEPS; step++) {
		struct item *it = &items[random_below(ITEMS)];
		unsigned what = random_below(10);

		if (step % 500 == 0)
			bias = random_below(9) + 1; /* phases that grow and phases that shrink */
		if (what < bias && it->slot == HEAP_NONE)
			push(h, &m, it, (int)random_below(KEYS));
		else if (what == 9)
			remove_last_slot(h, &m);
		else if (what % 2 == 0 && m.count > 0)
			remove_any(h, &m, random_below((unsigned)m.count));
		else
			remove_min(h, &m);
		if (step % 16 == 0)
			check(h, &m);
	}
	while (m.count > 0)
		remove_min(h, &m);
	check(h, &m);
	heap_destroy(&h);
	assert_null(h);
}

static void
heap_gives_equal_keys_in_order_of_id(void **state)
{
	struct item items[50];
	struct heap *h = heap_create(item_less, item_moved);

	for (int i = 49; i >= 0; i--) {
		items[i] = (struct item){.due = 7, .id = i};
		heap_push(h, &items[i]);
	}
	for (int i = 0; i < 50; i++)
		assert_ptr_equal(heap_pop(h), &items[i]);
	heap_destroy(&h);
}

static void
heap_removes_the_only_item(void **state)
{
	struct item one = {.due = 1};
	struct heap *h = heap_create(item_less, item_moved);

	heap_push(h, &one);
	heap_remove(h, one.slot);
	assert_true(one.slot == HEAP_NONE);
	assert_null(heap_min(h));
	assert_null(heap_pop(h));
	heap_push(h, &one);
	assert_ptr_equal(heap_min(h), &one);
	heap_destroy(&h);
}

/*
 *          0
 *      10      1        The last one, 3, comes from another branch than the hole that 12 leaves:
 *    11  12  2   3      it is smaller than 10 and must go up, not down.
 */
static void
heap_remove_in_the_middle_can_move_the_filler_up(void **state)
{
	static const int due[] = {0, 10, 1, 11, 12, 2, 3}, left[] = {0, 1, 2, 3, 10, 11};
	struct item items[7];
	struct heap *h = heap_create(item_less, item_moved);

	for (int i = 0; i < 7; i++) {
		items[i] = (struct item){.due = due[i], .id = i};
		heap_push(h, &items[i]);
		assert_int_equal(items[i].slot, i);
	}
	heap_remove(h, 4);
	assert_int_equal(items[6].slot, 1);
	for (int i = 0; i < 6; i++)
		assert_int_equal(((struct item *)heap_pop(h))->due, left[i]);
	heap_destroy(&h);
}

static void
heap_without_moved_sorts(void **state)
{
	struct item items[100];
	struct heap *h = heap_create(item_less, NULL);
	int last = -1;

	random_start();
	for (int i = 0; i < 100; i++) {
		items[i] = (struct item){.due = (int)random_below(KEYS), .id = i};
		heap_push(h, &items[i]);
	}
	for (int i = 0; i < 100; i++) {
		struct item *it = heap_pop(h);

		assert_true(it->due >= last);
		last = it->due;
	}
	heap_destroy(&h);
	heap_destroy(&h); /* of NULL: nothing */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(heap_answers_like_a_sorted_array),
	    cmocka_unit_test(heap_gives_equal_keys_in_order_of_id),
	    cmocka_unit_test(heap_removes_the_only_item),
	    cmocka_unit_test(heap_remove_in_the_middle_can_move_the_filler_up),
	    cmocka_unit_test(heap_without_moved_sorts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
