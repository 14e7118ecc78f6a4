/* A binary min-heap of pointers, each element knowing its slot, so that removal from the middle is O(log n).
 * Owned by one thread.  The comparator must be a total order (break ties by id): then two elements are never
 * equal and the order of removal is defined. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HEAP_NONE ((size_t)-1)

typedef bool (*heap_less_fn)(const void *a, const void *b);
typedef void (*heap_moved_fn)(
    void *item, size_t slot); /* item now sits in slot; HEAP_NONE: it left the heap */

struct heap;

struct heap *
heap_create(heap_less_fn less, heap_moved_fn moved); /* moved may be NULL if heap_remove is not used */
void heap_destroy(struct heap **h);                  /* items are not freed; moved is not called */
void heap_push(struct heap *h, void *item);
void *heap_min(const struct heap *h);          /* NULL when empty; stays in the heap */
void *heap_pop(struct heap *h);                /* NULL when empty */
void heap_remove(struct heap *h, size_t slot); /* slot as told by moved; asserts that it is in range */
size_t heap_count(const struct heap *h);
