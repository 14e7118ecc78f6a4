/*
 * Which lanes and shards a loader reads: the picture of the cluster, the lanes that there are, and
 * for people which shards are ours.
 */
#include "base/clock.h"
#include "base/log.h"
#include "node/context.h"
#include "node/handlers.h"
#include "node/loader_priv.h"
#include "strategy/host.h"

/* New lanes ring; this is for a ring that was lost.  When nothing can ring they are looked for in
 * every poll. */
#define LANES_EVERY_US (30 * US_PER_S)

static size_t
shard_count(const struct pgrab_shard_set *set)
{
	size_t n = 0;

	for (size_t i = 0; i < PGRAB_SHARD_SET_WORDS; i++)
		n += (size_t)__builtin_popcountll(set->word[i]);
	return n;
}

static void
deal_lanes(struct loader *l)
{
	lanes_refresh(
	    &l->lanes, l->lane_rows, l->n_lane_rows, l->strategy, &l->cluster->view, l->cluster->busy);
	l->next_full_us = 0;
}

void
loader_refresh_cluster(struct loader *l)
{
	struct cluster *c = cluster_slot_get(&l->node->cluster), *old = l->cluster;

	ASSERT_OWNED(&l->owner);
	l->cluster = c;
	if (c != NULL && cluster_same_shape(c, old) && !cluster_same_busy(c, old)) {
		deal_lanes(l);
	} else if (c != NULL && !cluster_same_shape(c, old)) {
		strategy_shards(l->strategy, &c->view, c->view.self, &l->own);
		l->next_lanes_us = 0;
		l->published = 0;
		l->found_us = clock_mono_us();
		if (l->index == 0)
			log_info("cluster", "nodes=%zu rank=%zu shards=%zu", c->view.n_nodes, c->view.self,
			    shard_count(&l->own));
	}
	cluster_put(&l->node->cluster, old);
}

enum rc
loader_refresh_lanes(struct loader *l, struct err *err)
{
	int64_t now = clock_mono_us();
	struct ability able = node_ability(l->node);
	struct lane_row *rows = NULL;
	size_t n = 0;
	enum rc rc;

	if (now < l->next_lanes_us)
		return RC_OK;
	rc = l->store->lanes(l->db, &able, &rows, &n, err);
	if (rc != RC_OK) {
		lane_rows_free(&rows, n);
		return rc;
	}
	lane_rows_free(&l->lane_rows, l->n_lane_rows);
	for (size_t i = 0; i < n; i++)
		rows[i].crew = handlers_crew(l->node->handlers, rows[i].kind);
	l->lane_rows = rows;
	l->n_lane_rows = n;
	deal_lanes(l);
	l->next_lanes_us = now + (atomic_load(&l->node->bell_heard) ? LANES_EVERY_US : l->node->set->poll_us);
	return RC_OK;
}

void
loader_publish_shards(struct loader *l)
{
	int64_t incarnation = atomic_load(&l->node->incarnation);
	struct err err = {0};

	if (l->index != 0 || l->cluster == NULL || incarnation == 0 || incarnation == l->published)
		return;
	if (l->store->node_shards(l->db, atomic_load(&l->node->node_id), incarnation, &l->own,
		strategy_overlapping(l->strategy), &err) == RC_OK)
		l->published = incarnation;
	else
		log_debug("publish_shards", "error=\"%s\"", err.text);
}
