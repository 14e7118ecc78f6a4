/* Which lanes and shards a loader reads: the picture of the cluster, the lanes that there are, and
 * for people which shards are ours. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "node/context.h"
#include "node/crews/crews.h"
#include "node/loader/private.h"
#include "strategy/host.h"

/* New lanes ring; this is for a ring that was lost, and for the right to a kind.  When nothing can ring,
 * they are looked for in every poll. */
#define LANES_EVERY_US (30 * US_PER_S)
#define LANES_ANEW_US  (3600 * US_PER_S) /* whatever their print says */

/* A survey is good for what was planned when it was made.  An INSERT of a task that is due within this
 * time rings (task_inserted); so what is due this long after a survey, the next one sees in time. */
#define SURVEY_AHEAD_US (2 * QUIET_POLL_US)
/* A survey waits for this many times as long as the last one took. */
#define SURVEY_PAUSE 4

/* To probe all shards of a lane costs as much as many rows, and where other tasks are planned each probe is
 * a page of the index.  So while looks follow each other, a lane in which one found nothing is left out for
 * this long, or for as many times as long as that look took with all before it, up to a poll. */
#define DRY_US    (100 * US_PER_MS)
#define DRY_PAUSE 10

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

/* What has not changed need not be published again. */
static void
ask_shards(struct loader *l, const struct pgrab_cluster *c)
{
	struct pgrab_shard_set before = l->own;

	strategy_shards(l->strategy, c, c->self, &l->own);
	if (memcmp(&before, &l->own, sizeof before) != 0)
		l->published = 0;
}

void
loader_refresh_cluster(struct loader *l)
{
	struct cluster *c = cluster_slot_get(&l->node->cluster), *old = l->cluster;

	ASSERT_MINE(&l->only);
	l->cluster = c;
	bool same = c != NULL && cluster_same_shape(c, old), as_fit = same && cluster_same_fitness(c, old);

	if (c != NULL && !as_fit)
		ask_shards(l, &c->view);
	if (same && (!as_fit || !cluster_same_busy(c, old))) {
		deal_lanes(l);
	} else if (c != NULL && !same) {
		l->next_lanes_us = l->anew_lanes_us = 0;
		l->found_us = clock_mono_us();
		if (l->index == 0)
			log_info("cluster", "nodes=%zu rank=%zu shards=%zu", c->view.n_nodes, c->view.self,
			    shard_count(&l->own));
	}
	cluster_put(&l->node->cluster, old);
}

static enum rc
ask_lanes(struct loader *l, const struct ability *able, struct err *err)
{
	struct lane_row *rows = NULL, *before = l->lane_rows;
	size_t n = 0, n_before = l->n_lane_rows;
	enum rc rc = l->store->lanes(l->db, able, &rows, &n, err);

	if (rc != RC_OK) {
		lane_rows_free(&rows, n);
		return rc;
	}
	for (size_t i = 0; i < n; i++)
		rows[i].crew = crews_of(l->node, rows[i].kind);
	l->lane_rows = rows;
	l->n_lane_rows = n;
	deal_lanes(l);
	lane_rows_free(&before, n_before);
	return RC_OK;
}

enum rc
loader_refresh_lanes(struct loader *l, struct err *err)
{
	int64_t now = clock_mono_us();
	struct ability able = node_ability(l->node);
	char *print = NULL;
	enum rc rc;

	if (now < l->next_lanes_us)
		return RC_OK;
	/* Before the lanes: it is never newer than they are. */
	rc = l->store->lanes_print(l->db, &able, &print, err);
	if (rc == RC_OK &&
	    (now >= l->anew_lanes_us || l->lanes_print == NULL || strcmp(print, l->lanes_print) != 0)) {
		rc = ask_lanes(l, &able, err);
		if (rc == RC_OK)
			l->anew_lanes_us = now + LANES_ANEW_US;
	}
	if (rc != RC_OK) {
		free(print);
		return rc;
	}
	free(l->lanes_print);
	l->lanes_print = print;
	l->next_lanes_us = now + (atomic_load(&l->node->bell_heard) ? LANES_EVERY_US : l->node->set->poll_us);
	return RC_OK;
}

int64_t
loader_next_survey(const struct loader *l)
{
	int64_t pause_us = l->quiet ? QUIET_POLL_US : l->node->set->poll_us;

	if (!lanes_many(&l->lanes))
		return INT64_MAX;
	/* While we are deaf perhaps nobody rings. */
	if (l->survey_soon || l->deaf || l->lanes.survey_turn > 0 || pause_us < l->survey_pause_us)
		pause_us = l->survey_pause_us;
	return l->surveyed_us == 0 ? 0 : l->surveyed_us + pause_us;
}

enum rc
loader_survey(struct loader *l, struct err *err)
{
	int64_t now = clock_mono_us();
	int64_t ahead_us = l->node->set->lookahead_us + SURVEY_AHEAD_US + 2 * l->survey_cycle_us;
	size_t n;
	enum rc rc;

	if (now < loader_next_survey(l))
		return RC_OK;
	const char **keys = xcalloc(SURVEY_STEPS, sizeof *keys);
	struct pgrab_shard_set *soon = xcalloc(l->lanes.count, sizeof *soon);

	if (l->lanes.survey_turn == 0)
		l->survey_began_us = now;
	n = lanes_to_survey(&l->lanes, keys);
	rc = l->store->survey(l->db, keys, n, ahead_us, soon, &n, err);
	if (rc == RC_OK) {
		l->surveyed_us = clock_mono_us();
		l->survey_pause_us = SURVEY_PAUSE * (l->surveyed_us - now);
		l->survey_soon = false;
		if (lanes_surveyed(&l->lanes, soon, n))
			l->survey_cycle_us = l->surveyed_us - l->survey_began_us;
	}
	free(soon);
	free(keys);
	return rc;
}

bool
loader_any_rang(const struct wakeup *w)
{
	bool rang = false;

	for (size_t i = 0; i < PGRAB_SHARD_SET_WORDS; i++)
		rang = rang || w->bell->word[i] != 0;
	return rang;
}

void
loader_spare_dry(struct loader *l, const struct wakeup *w)
{
	l->lanes.spare = lanes_fit(&l->lanes) && l->hungry && w->now < l->next_full_us &&
			 w->now < l->dry_until_us && !loader_any_rang(w);
}

void
loader_note_dry(struct loader *l, const struct wakeup *w)
{
	int64_t pause_us = DRY_PAUSE * (l->looked_us - w->now);

	if (w->looked && !l->lanes.spare)
		l->dry_until_us = l->looked_us + (pause_us > DRY_US ? pause_us : DRY_US);
	l->lanes.spare = false;
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
