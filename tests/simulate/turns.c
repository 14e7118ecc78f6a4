/* See turns.h. */
#include "turns.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "node/lanes/lanes.h"
#include "pgrab/strategy.h"

#define BIG_TASKS   1000000
#define SMALL_TASKS 10   /* of each of the other keys */
#define TASK_S      0.01 /* that one takes, about */
#define SLOTS_MOST  16

/* The tasks of one key in the shards of one node. */
struct share {
	uint32_t key, left;
};

struct node_tasks {
	struct share *share; /* by key, those that have some */
	size_t n, big;       /* big: where that key is; n: it has none */
	struct lane lane;
	double free_at[SLOTS_MOST]; /* each worker */
	uint32_t slots;
};

struct plan {
	uint32_t nodes, keys;
	uint64_t seed;
};

struct waits_of {
	double *s;
	size_t n;
};

static double
chance(uint64_t *random)
{
	*random = pgrab_mix64(*random);
	return (double)(*random >> 11) / (double)(UINT64_C(1) << 53);
}

/* A worker that is free begins the next task; returns when. */
static double
begin_next(struct node_tasks *n, uint64_t *random)
{
	uint32_t first = 0;
	double at;

	for (uint32_t i = 1; i < n->slots; i++) {
		if (n->free_at[i] < n->free_at[first])
			first = i;
	}
	at = n->free_at[first];
	n->free_at[first] += TASK_S * (0.5 + chance(random));
	return at;
}

static uint32_t
take(struct node_tasks *n, size_t i, int64_t most, struct waits_of *w, uint64_t *random)
{
	struct share *s = &n->share[i];
	uint32_t taken = s->left < most ? s->left : (uint32_t)most;

	s->left -= taken;
	for (uint32_t k = 0; k < taken; k++) {
		double at = begin_next(n, random);

		if (i != n->big)
			w->s[w->n++] = at;
	}
	return taken;
}

/* What look_turns.sql finds, from one key to the next behind the last one. */
static void
look_in_turns(struct node_tasks *n, struct waits_of *w, uint64_t *random)
{
	struct look_lane to = {.wanted = n->lane.room};
	size_t at;

	turns_ask(&n->lane, &to);
	at = to.after[0] == '\0' ? 0 : strtoul(to.after, NULL, 10) + 1;
	for (size_t i = 0; i < n->n && to.found < to.wanted; i++, at++) {
		size_t here = at % n->n;
		int64_t room = to.wanted - to.found;

		to.wrapped = to.wrapped || at >= n->n;
		if (n->share[here].left == 0)
			continue;
		to.keys++;
		to.found += take(n, here, to.slice < room ? to.slice : room, w, random);
		snprintf(to.after, sizeof to.after, "%zu", here);
	}
	turns_taken(&n->lane, &to);
}

/* What look.sql finds: the big key is the oldest. */
static void
look_by_age(struct node_tasks *n, struct waits_of *w, uint64_t *random)
{
	int64_t room = n->lane.room;

	if (n->big < n->n)
		room -= take(n, n->big, room, w, random);
	for (size_t i = 0; i < n->n && room > 0; i++)
		room -= take(n, i, room, w, random);
}

static void
work_off(struct node_tasks *n, struct waits_of *w, uint64_t *random)
{
	size_t small = 0, before = w->n;

	for (size_t i = 0; i < n->n; i++)
		small += i == n->big ? 0 : n->share[i].left;
	while (w->n - before < small) {
		if (turns_worthwhile(&n->lane))
			look_in_turns(n, w, random);
		else
			look_by_age(n, w, random);
	}
}

/* Deals the tasks among the nodes, as their shards do: by chance. */
static struct node_tasks *
deal(const struct plan *p, bool big, uint64_t *random)
{
	struct node_tasks *nodes = xcalloc(p->nodes, sizeof *nodes);

	for (uint32_t i = 0; i < p->nodes; i++) {
		nodes[i].share = xcalloc(p->keys + 1, sizeof *nodes[i].share);
		nodes[i].slots = 2 + i % (SLOTS_MOST - 2);
		nodes[i].lane = (struct lane){.room = nodes[i].slots, .n_shards = 1};
	}
	for (uint32_t key = 0; key <= p->keys; key++) {
		bool is_big = key == p->keys / 2;

		for (uint32_t k = 0; k < (is_big ? (big ? BIG_TASKS : 0) : SMALL_TASKS); k++) {
			struct node_tasks *n = &nodes[(uint32_t)(chance(random) * p->nodes)];

			if (n->n == 0 || n->share[n->n - 1].key != key)
				n->share[n->n++].key = key;
			n->share[n->n - 1].left++;
		}
	}
	for (uint32_t i = 0; i < p->nodes; i++) {
		struct node_tasks *n = &nodes[i];

		while (n->big < n->n && n->share[n->big].key != p->keys / 2)
			n->big++;
	}
	return nodes;
}

static int
by_wait(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double
work_off_all(const struct plan *p, bool big)
{
	uint64_t random = p->seed;
	struct node_tasks *nodes = deal(p, big, &random);
	struct waits_of w = {.s = xcalloc((size_t)p->keys * SMALL_TASKS, sizeof *w.s)};
	double p99;

	for (uint32_t i = 0; i < p->nodes; i++) {
		work_off(&nodes[i], &w, &random);
		free(nodes[i].share);
	}
	assert(w.n == (size_t)p->keys * SMALL_TASKS);
	qsort(w.s, w.n, sizeof *w.s, by_wait);
	p99 = w.s[w.n * 99 / 100];
	free(w.s);
	free(nodes);
	return p99;
}

bool
turns_are_fair(uint32_t nodes, uint32_t keys, uint64_t seed)
{
	const struct plan p = {nodes, keys, seed};
	double alone = work_off_all(&p, false), beside = work_off_all(&p, true);

	printf("turns: %d tasks of each of %u keys wait %.2f s (p99), beside %d of another key %.2f s\n",
	    SMALL_TASKS, (unsigned)keys, alone, BIG_TASKS, beside);
	return beside <= 2 * alone;
}
