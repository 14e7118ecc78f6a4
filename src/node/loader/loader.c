/*
 * Loader: database -> boss.
 *
 * A round serves one wake-up: a look (read only, by index, in the shards the strategy says are ours) and a
 * claim (the versioned UPDATE) for what the look found, never more than the boss has room for; see
 * look.c.  Rounds follow each other while rows are left behind; else the loader sleeps until `poll`,
 * the doorbell, or room.
 */
#include "node/loader/loader.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/crews/crews.h"
#include "node/loader/private.h"
#include "strategy/host.h"

/* At least, between looks that rings ask for; and for each other node of the cluster so much more.  What is
 * inserted is dealt among all, so the more nodes there are the less a look finds, and it costs as much as one
 * that finds more.  No more than that, however many there are: it is how late a task may be for it. */
#define LOOK_GAP_US     (2 * US_PER_MS)
#define LOOK_GAP_EACH   (3 * US_PER_MS)
#define LOOK_GAP_MAX_US (200 * US_PER_MS)

/* A NOTIFY wakes a session of each node, as long as one of them wants the bell.  Where that is much, nodes do
 * without: one that finds something more often than every third time looks once in a gap, whether it rings or
 * not, until it has found nothing for a while.  That must not happen by chance: of 90 nodes that find
 * something two times of three, some would always want the bell again. */
#define STEADY_NODES 10
#define STEADY_FULL  12
#define STEADY_FIND  2 /* for a look that finds something; a gap without counts 1 */

/* One more look this long after we were busy, or asked for the bell, and again after twice as long, up to a
 * poll: a session that did not ring, because nobody wanted the bell, may commit only then. */
#define ECHO_US (50 * US_PER_MS)

void
loader_expect_echoes(struct loader *l)
{
	l->echo_gap_us = ECHO_US;
	l->echo_us = clock_mono_us() + ECHO_US;
}

/* A loader that looks again soon by itself wants no bell. */
static void
set_hungry(struct loader *l, bool hungry)
{
	bool deaf = hungry || l->steady;

	l->hungry = hungry;
	if (deaf == l->deaf)
		return;
	l->deaf = deaf;
	if (deaf) {
		atomic_fetch_add(&l->node->hungry, 1);
	} else {
		atomic_fetch_sub(&l->node->hungry, 1);
		loader_expect_echoes(l);
	}
}

/* Between two heartbeats: we were busy and will now sleep, so we want the bell; look
 * again after that is written. */
static bool
want_bell(struct loader *l)
{
	struct err err = {0};
	enum rc rc;

	if (atomic_load(&l->node->hungry) > 0 || atomic_exchange(&l->node->bell_written, true))
		return false;
	rc = l->store->node_bell(
	    l->db, atomic_load(&l->node->node_id), atomic_load(&l->node->incarnation), true, &err);
	atomic_fetch_add(&l->node->bell_times, 1); /* it was said before it was so */
	if (rc != RC_OK)
		atomic_store(&l->node->bell_written, false);
	return rc == RC_OK;
}

static bool
take_bell(struct loader *l, struct pgrab_shard_set *out)
{
	bool rang;

	PTHREAD_OK(pthread_mutex_lock(&l->bell_lock));
	*out = l->bell;
	rang = !l->bell_all;
	if (l->bell_lanes)
		l->next_lanes_us = 0;
	/* Even if it is not for us: its owner may be unable to take it. */
	if (l->bell_rang)
		l->found_us = clock_mono_us();
	if (l->bell_many) { /* anywhere, and perhaps before what was read last */
		l->survey_soon = true;
		l->next_full_us = 0;
	}
	l->bell_rang = false;
	l->bell_many = false;
	l->bell_lanes = false;
	memset(&l->bell, 0, sizeof l->bell);
	l->bell_all = false;
	PTHREAD_OK(pthread_mutex_unlock(&l->bell_lock));
	return rang;
}

static bool
may_look(const struct loader *l)
{
	struct node *n = l->node;

	return !node_draining(n) && health_may_claim(n) && l->cluster != NULL &&
	       node_may_act(n, atomic_load(&n->incarnation), clock_boot_us());
}

/* Have all transactions ended that may have inserted a task before the bell was wanted?  Asked once in a poll
 * until it is so.  What they have inserted, the look that follows finds. */
static bool
all_heard(struct loader *l)
{
	unsigned times = atomic_load(&l->node->bell_times);
	char *left = NULL;
	struct err err = {0};

	if (l->unheard != NULL && times != l->heard_times) {
		free(l->unheard);
		l->unheard = NULL;
	}
	if (l->unheard != NULL && strcmp(l->unheard, "{}") == 0)
		return true;
	if (l->store->unheard(l->db, l->unheard, &left, &err) != RC_OK)
		return false;
	free(l->unheard);
	l->unheard = left;
	l->heard_times = times;
	return strcmp(left, "{}") == 0;
}

/* Has there been nothing to do for a while, and will we be told when that changes?  What rang was taken by
 * its owner, or could have been stolen. */
static bool
is_quiet(struct loader *l, int64_t now)
{
	int64_t while_us = l->node->set->steal_after_us + 2 * l->node->set->poll_us + loader_round_us(l);

	return atomic_load(&l->node->bell_heard) && atomic_load(&l->node->bell_written) && !l->hungry &&
	       lanes_fit(&l->lanes) && now - l->found_us > while_us &&
	       l->node->set->poll_us < QUIET_POLL_US && all_heard(l);
}

static bool
is_echo(const struct loader *l, int64_t now)
{
	return now >= l->echo_us && l->echo_gap_us < l->node->set->poll_us;
}

static int64_t
next_echo(struct loader *l, int64_t now)
{
	int64_t poll_us = l->node->set->poll_us;

	if (is_echo(l, now)) {
		l->echo_gap_us *= 2;
		l->echo_us = now + l->echo_gap_us;
	}
	return l->echo_gap_us < poll_us ? l->echo_us : now + poll_us;
}

/* When to look next if nothing rings. */
static int64_t
next_poll(struct loader *l, int64_t now)
{
	int64_t next_us = l->quiet ? now + QUIET_POLL_US : next_echo(l, now);
	int64_t survey_us = loader_next_survey(l);

	next_us = next_us < survey_us ? next_us : survey_us;
	return next_us < l->anew_us ? next_us : l->anew_us;
}

static void
say(_Atomic int *wanting, bool wants, bool *said)
{
	if (wants != *said)
		atomic_fetch_add(wanting, wants ? 1 : -1);
	*said = wants;
}

/* Says which crews have tasks that were left behind or not looked at: when such a crew has room
 * again, or more than before, the boss wakes us. */
static void
say_wants(struct loader *l, const bool *wants, const bool *more)
{
	for (size_t i = 0; i < CREWS_MAX; i++) {
		say(&l->node->wanting[i], wants[i], &l->said[i]);
		say(&l->node->wanting_more[i], more[i], &l->said_more[i]);
	}
}

static bool
any_said(const struct loader *l)
{
	bool any = false;

	for (size_t i = 0; i < CREWS_MAX; i++)
		any = any || l->said[i] || l->said_more[i];
	return any;
}

static void
within_quota(struct loader *l, struct room *room)
{
	for (size_t i = 0; i < crews_count(l->node); i++)
		room->ready[i] = strategy_quota(l->strategy, &l->cluster->peers, room->ready[i]);
}

static int64_t
nodes_up(const struct loader *l)
{
	return l->cluster == NULL ? 1 : (int64_t)l->cluster->view.n_nodes;
}

/* At least, between two looks that rings ask for. */
static int64_t
look_gap(const struct loader *l)
{
	int64_t gap_us = LOOK_GAP_US + LOOK_GAP_EACH * (nodes_up(l) - 1);

	return gap_us < LOOK_GAP_MAX_US ? gap_us : LOOK_GAP_MAX_US;
}

/* After a look at our own shards, or at all that rang of them. */
static void
note_steady(struct loader *l, const struct wakeup *w)
{
	int64_t gaps = (w->now - l->noted_us) / look_gap(l), finds = l->finds;

	if (!w->looked || (!w->found && gaps == 0)) /* in vain, too soon to count */
		return;
	l->noted_us = w->now;
	finds += w->found ? STEADY_FIND - (gaps > 1 ? gaps - 1 : 0) : -gaps;
	if (nodes_up(l) < STEADY_NODES || finds < 0)
		finds = 0;
	l->finds = finds < STEADY_FULL ? (int)finds : STEADY_FULL;
	l->steady = l->finds == STEADY_FULL || (l->steady && l->finds > 0);
}

/* Is there more to do than this node can?  And whose tasks were left for lack of room? */
static void
note_left(struct loader *l, const struct wakeup *w)
{
	bool full = room_ready(&w->taken) == 0;

	note_steady(l, w);
	/* Hungry: rows are left that another look would find, or there was no room to look at all. */
	set_hungry(l, (w->more && l->moved) || full);
	for (size_t i = 0; i < CREWS_MAX; i++)
		l->wants[i] = l->wants[i] || full || (w->taken.ready[i] <= 0 && lanes_has_crew(&l->lanes, i));
	say_wants(l, l->wants, l->wants_more);
}

static int64_t
gap_end(const struct loader *l)
{
	return l->looked_us + look_gap(l);
}

/* Before which no ring is answered.  What has waited for room, or for a time, does not wait for rings. */
static int64_t
rings_until(const struct loader *l)
{
	int64_t least_us = l->looked_us + LOOK_GAP_US, until_us = gap_end(l);

	until_us = until_us < l->next_us ? until_us : l->next_us;
	return any_said(l) || until_us < least_us ? least_us : until_us;
}

/* clock_mono_us; 0: at once. */
static int64_t
next_look(struct loader *l, const struct wakeup *w)
{
	if (w->more && room_ready(&w->room) < room_ready(&w->taken))
		return w->now + l->node->set->heartbeat_us; /* for a new picture of the others */
	if (w->more && l->moved)
		return 0;
	if (w->spared && !w->more && room_ready(&w->taken) > 0)
		return 0; /* there is room for what has come there */
	if (!l->hungry && want_bell(l)) {
		loader_expect_echoes(l);
		return 0;
	}
	return l->steady ? gap_end(l) : next_poll(l, w->now);
}

/* Does all that a wake-up asks for, and sets l->next_us to when to look next. */
static enum rc
serve_wakeup(struct loader *l, bool only_rung, const struct pgrab_shard_set *bell, struct err *err)
{
	struct wakeup w = {.only_rung = only_rung,
	    .bell = bell,
	    .now = clock_mono_us(),
	    .taken = boss_take_room(l->node->boss)};
	enum rc rc;

	w.room = w.taken;
	within_quota(l, &w.room);
	l->moved = false;
	memset(l->wants, 0, sizeof l->wants);
	memset(l->wants_more, 0, sizeof l->wants_more);
	l->quiet = w.room.timed > 0 && is_quiet(l, w.now);
	l->survey_soon = l->survey_soon || is_echo(l, w.now);
	if (w.now >= l->anew_us) {
		l->anew_us = INT64_MAX;
		l->next_full_us = 0;
		memset(l->next_steal_us, 0, sizeof l->next_steal_us);
	}
	l->lanes.large = w.room.large;
	rc = loader_look(l, &w, err);
	l->lanes.large = NULL;
	note_left(l, &w);
	boss_give(l->node->boss, NULL, w.taken);
	if (rc != RC_OK) {
		l->next_us = l->retry_us = l->anew_us = w.now + backoff_next_us(&l->backoff);
		return rc;
	}
	if (room_ready(&w.taken) + w.taken.timed > 0) /* else nobody was asked */
		backoff_reset(&l->backoff);
	l->next_us = next_look(l, &w);
	return RC_OK;
}

bool
loader_round(struct loader *l)
{
	struct pgrab_shard_set bell;
	struct err err = {0};
	enum gate_wake wake = gate_wait(&l->gate, l->next_us);
	bool only_rung;
	enum rc rc;

	ASSERT_MINE(&l->only);
	if (wake == GATE_RUNG && !l->hungry && !gate_pause(&l->gate, rings_until(l)))
		wake = GATE_STOPPED;
	if (wake == GATE_STOPPED)
		return false;
	if (clock_mono_us() < l->retry_us) { /* whatever rang: the last answer was a refusal */
		l->next_us = l->retry_us;
		return true;
	}
	loader_refresh_cluster(l);
	loader_publish_shards(l);
	only_rung = take_bell(l, &bell) && wake == GATE_RUNG;
	if (!may_look(l)) {
		l->next_us = clock_mono_us() + l->node->set->poll_us;
		return true;
	}
	rc = serve_wakeup(l, only_rung, &bell, &err);
	if (rc == RC_BAD || (rc != RC_OK && l->backoff.tries % 32 == 1))
		log_line(rc == RC_BAD ? LOG_ERROR : LOG_WARN, "look", "answer=%s tries=%u error=\"%s\"",
		    rc_name(rc), l->backoff.tries, err.text);
	return true;
}

void
loader_end(struct loader *l)
{
	cluster_put(&l->node->cluster, l->cluster);
	l->cluster = NULL;
	set_hungry(l, false);
	say_wants(l, (bool[CREWS_MAX]){false}, (bool[CREWS_MAX]){false});
	db_disconnect(l->db);
}

void *
loader_main(void *arg)
{
	struct loader *l = arg;

	one_thread_take(&l->only);
	while (loader_round(l))
		;
	loader_end(l);
	return NULL;
}
