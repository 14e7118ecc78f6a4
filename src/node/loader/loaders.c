/* The loaders of a node: made, started, rung, stopped.  What one does is loader.c. */
#include "node/loader/loader.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "node/context.h"
#include "node/loader/private.h"
#include "strategy/host.h"

struct loaders {
	size_t count;
	struct loader loader[];
};

enum rc
loaders_create(struct node *n, struct loaders **out, struct err *err)
{
	size_t count = (size_t)n->set->loaders;
	struct loaders *ls = xcalloc(1, sizeof *ls + count * sizeof ls->loader[0]);
	enum rc rc = RC_OK;

	for (size_t i = 0; i < count && rc == RC_OK; i++) {
		struct loader *l = &ls->loader[i];

		rc = strategy_open(n->set->strategy, n->set->strategy_options, &l->strategy, err);
		if (rc != RC_OK)
			break;
		l->node = n;
		l->index = (unsigned)i;
		l->store = n->store;
		l->db = node_db(n, "load");
		lanes_init(&l->lanes, (unsigned)i, (unsigned)n->set->loaders);
		l->bell_all = true;
		loader_expect_echoes(l);
		l->sifter.doubts = l->settler.doubts = &n->doubts;
		backoff_init(&l->backoff, 50 * US_PER_MS, 2 * US_PER_S, (uint64_t)clock_mono_us() + i);
		gate_init(&l->gate);
		PTHREAD_OK(pthread_mutex_init(&l->bell_lock, NULL));
		ls->count++;
	}
	*out = ls;
	if (rc != RC_OK)
		loaders_destroy(out);
	return rc;
}

void
loaders_destroy(struct loaders **ls)
{
	if (*ls == NULL)
		return;
	for (size_t i = 0; i < (*ls)->count; i++) {
		struct loader *l = &(*ls)->loader[i];

		strategy_close(&l->strategy);
		db_destroy(&l->db);
		gate_fini(&l->gate);
		PTHREAD_OK(pthread_mutex_destroy(&l->bell_lock));
		lanes_fini(&l->lanes);
		lane_rows_free(&l->lane_rows, l->n_lane_rows);
		look_fini(&l->query);
		free(l->unheard);
		free(l->lanes_print);
	}
	free(*ls);
	*ls = NULL;
}

struct loader *
loaders_at(struct loaders *ls, size_t i)
{
	return &ls->loader[i];
}

void
loaders_start(struct loaders *ls)
{
	for (size_t i = 0; i < ls->count; i++)
		thread_start(&ls->loader[i].thread, "loader", loader_main, &ls->loader[i]);
}

void
loaders_stop(struct loaders *ls)
{
	for (size_t i = 0; i < ls->count; i++)
		gate_stop(&ls->loader[i].gate);
	for (size_t i = 0; i < ls->count; i++) {
		thread_join(ls->loader[i].thread);
		one_thread_leave(&ls->loader[i].only);
	}
}

/* many: there is something for more shards than these. */
static void
ring(struct loaders *ls, const uint16_t *shards, unsigned n, bool many)
{
	for (size_t i = 0; i < ls->count; i++) {
		struct loader *l = &ls->loader[i];

		WITH_LOCK(&l->bell_lock);
		l->bell_all = l->bell_all || n == 0;
		l->bell_rang = true;
		l->bell_many = l->bell_many || many;
		for (unsigned k = 0; k < n; k++) {
			if (shards[k] < PGRAB_SHARDS)
				pgrab_shard_add(&l->bell, shards[k]);
		}
		gate_ring(&l->gate);
	}
}

void
loaders_ring(struct loaders *ls, const uint16_t *shards, unsigned n)
{
	ring(ls, shards, n, n == 0);
}

void
loaders_wake(void *arg)
{
	struct loaders *ls = arg;

	/* Room or cluster: not tied to a shard, and nothing new. */
	ring(ls, NULL, 0, false);
}

void
loaders_ring_lanes(struct loaders *ls)
{
	for (size_t i = 0; i < ls->count; i++) {
		WITH_LOCK(&ls->loader[i].bell_lock);
		ls->loader[i].bell_lanes = true;
	}
	loaders_ring(ls, NULL, 0);
}
