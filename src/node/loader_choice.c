/*
 * What a look reads and what is taken of it: which shards, from which marks, which candidates.  No connection, no
 * clock; the thread itself is loader.c.
 */
#include "node/loader_inside.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "node/context.h"
#include "strategy/host.h"

void
loader_forget_marks(struct loader *l)
{
	memset(l->mark_text, 0, sizeof l->mark_text);
}

int
loader_by_id(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* The longest overdue first, priority counted as waiting. */
static int
by_rank(const void *a, const void *b)
{
	const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
	int64_t rank_x = x->overdue_us + x->priority * PRIORITY_STEP_US;
	int64_t rank_y = y->overdue_us + y->priority * PRIORITY_STEP_US;

	if (rank_x != rank_y)
		return rank_x > rank_y ? -1 : 1;
	return loader_by_id(x, y);
}

static bool
accepts(struct loader *l, const struct candidate *c)
{
	struct pgrab_candidate t = {.size = sizeof t,
	    .id = c->id,
	    .shard = c->shard,
	    .priority = c->priority,
	    .overdue_us = c->overdue_us,
	    .has_require = c->has_require};

	return strategy_accept(l->strategy, &l->cluster->view, &t);
}

/* Sets ->chosen on what the strategy accepts and the room allows, the best first; ->refused on what is not
 * for this node. */
size_t
loader_choose(struct loader *l, struct candidate *c, size_t n, struct room room)
{
	struct candidate **rank = xcalloc(n + 1, sizeof *rank);
	size_t chosen = 0;

	for (size_t i = 0; i < n; i++)
		rank[i] = &c[i];
	qsort(rank, n, sizeof *rank, by_rank);
	for (size_t i = 0; i < n; i++) {
		int64_t *left = rank[i]->overdue_us >= 0 ? &room.ready : &room.timed;

		if (*left <= 0)
			continue;
		rank[i]->refused = !accepts(l, rank[i]);
		if (rank[i]->refused) {
			rank[i]->misfired = false; /* somebody else's to settle */
			continue;
		}
		rank[i]->refused = rank[i]->misfired;
		if (rank[i]->misfired)
			continue;
		--*left;
		rank[i]->chosen = true;
		chosen++;
	}
	free(rank);
	return chosen;
}

bool
loader_left_behind(const struct candidate *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!c[i].chosen && !c[i].refused && c[i].overdue_us >= 0)
			return true;
	}
	return false;
}

/* Moves the chosen to the front, sorted by id, the lock order. */
void
loader_keep_chosen(struct candidate *c, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (c[i].chosen)
			c[kept++] = c[i];
	}
	qsort(c, kept, sizeof *c, loader_by_id);
}

/* The shards to read, beginning where the last look ended, so that a deep backlog in the first ones starves
 * no other. */
size_t
loader_own_shards(struct loader *l, uint16_t *out)
{
	for (size_t i = 0; i < l->n_shards; i++)
		out[i] = l->shards[(l->turn + i) % l->n_shards];
	return l->n_shards;
}

/* Only the shards that rang and are ours. */
size_t
loader_rung_shards(struct loader *l, const struct pgrab_shard_set *bell, uint16_t *out)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n_shards; i++) {
		if (pgrab_shard_has(bell, l->shards[i]))
			out[n++] = l->shards[i];
	}
	return n;
}

size_t
loader_other_shards(struct loader *l, uint16_t *out)
{
	size_t n = 0;

	for (unsigned i = 0; i < PGRAB_SHARDS; i++) {
		/* Each loader of the node its part; turned by a little chance, so that thieves do not meet in
		 * the same shard. */
		unsigned s = (i + (unsigned)(l->backoff.random >> 20)) % PGRAB_SHARDS;

		if (!pgrab_shard_has(&l->own, s) && s % (unsigned)l->node->set->loaders == l->index)
			out[n++] = (uint16_t)s;
	}
	l->backoff.random = pgrab_mix64(l->backoff.random);
	return n;
}

/* Remembers how far each shard was read and taken, and where to begin next: nothing that was left behind may
 * fall below a mark. */
void
loader_note_progress(struct loader *l, const struct candidate *c, size_t n)
{
	const struct candidate *left = NULL; /* the first that stayed */
	bool complete = true;                /* so far, in this shard */

	while (n > 0 && c->priority != 0) { /* read by lane, not by shard */
		c++;
		n--;
	}
	for (size_t i = 0; i < n; i++) {
		if (i == 0 || c[i - 1].shard != c[i].shard)
			complete = true;
		complete = complete && (c[i].chosen || c[i].refused) && !c[i].misfired;
		if (!complete && left == NULL)
			left = &c[i];
		if (complete && c[i].overdue_us >= 0) {
			memcpy(l->mark[c[i].shard], c[i].due, sizeof c[i].due);
			l->mark_text[c[i].shard] = l->mark[c[i].shard];
		}
	}
	if (n == 0)
		return;
	for (size_t i = 0; i < l->n_shards; i++) {
		if (l->shards[i] == (left != NULL ? left : &c[n - 1])->shard)
			l->turn = i; /* it may have more */
	}
}
