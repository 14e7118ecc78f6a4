/*
 * Loader: database -> boss.
 *
 * A round is one look (read only, by index, in the shards the strategy says are ours) and one claim (the
 * versioned UPDATE) for what the look found, never more than the boss has room for.  Rounds follow each other
 * while rows are left behind; else the loader sleeps until `poll`, the doorbell, or room.
 *
 * Low-water marks.  While one round follows another, the look begins in each shard at the last due time it
 * has read there: dead index entries pile up at the head when an old snapshot is held.  A look after a sleep
 * begins at the beginning, and so does one in every `poll`: rows that were committed late, or handed back,
 * have an older due time than the mark.
 *
 * Steal.  What is overdue by steal_after in shards of others is claimed too, but only when nothing is left to
 * do in our own: once per poll, and on from there while there is more and we win some of it.
 */
#include "node/loader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "core/skew.h"
#include "node/boss.h"
#include "node/context.h"
#include "node/handlers.h"
#include "node/loader_priv.h"
#include "strategy/host.h"

#define LOOK_GAP_US (2 * US_PER_MS) /* at least, between looks that rings ask for */

/* A node that has found nothing for this long, and hears its doorbell, looks only this often: whoever inserts
 * a task that is due before the look after the next rings (see task_inserted). */
#define QUIET_AFTER_US (30 * US_PER_S)
#define QUIET_POLL_US  (10 * US_PER_S)

/* One more look this long after we were busy, or asked for the bell, and again after twice as long, up to a
 * poll: a session that did not ring, because nobody wanted the bell, may commit only then. */
#define ECHO_US (50 * US_PER_MS)

void
loader_expect_echoes(struct loader *l)
{
	l->echo_gap_us = ECHO_US;
	l->echo_us = clock_mono_us() + ECHO_US;
}

static void
set_hungry(struct loader *l, bool hungry)
{
	if (hungry == l->hungry)
		return;
	l->hungry = hungry;
	if (hungry) {
		atomic_fetch_add(&l->node->hungry, 1);
	} else {
		atomic_fetch_sub(&l->node->hungry, 1);
		loader_expect_echoes(l);
	}
}

/* One look and one claim.  *more_out: rows were left behind.  RC_OK also when nothing was found. */
static enum rc
look_and_claim(struct loader *l, enum lanes_part part, struct room room, bool *more_out, struct err *err)
{
	struct node *n = l->node;
	int64_t incarnation = atomic_load(&n->incarnation);
	struct look *q = &l->query;
	struct candidate *c = NULL;
	struct run *chain = NULL;
	size_t found = 0, chosen, won = 0;
	int64_t asked_us;
	enum rc rc;

	q->able = node_ability(n);
	q->once = atomic_load(&n->durable);
	q->ahead_us = part == LANES_OTHERS ? -n->set->steal_after_us
		      : room.timed > 0     ? n->set->lookahead_us + (l->quiet ? QUIET_POLL_US : 0)
					   : 0;
	q->marks = part == LANES_OWN && l->hungry && clock_mono_us() < l->next_full_us;
	q->free = clock_mono_us() < l->contended_until_us;
	asked_us = clock_mono_us();
	rc = l->store->look(l->db, q, &c, &found, err);
	l->looked_us = clock_mono_us();
	if (rc != RC_OK)
		return rc;
	if (found > 0) {
		l->found_us = l->looked_us;
		l->ahead_us = skew_within(
		    atomic_load(&n->db_ahead_us), c->due_us + c->overdue_us, asked_us, l->looked_us);
	}
	if (part == LANES_OWN)
		l->later_us = loader_put_off(c, found, n->set->lookahead_us);
	chosen = loader_choose(l, c, found, room);
	/* Tasks that are not due yet and found no room can wait: they are seen again when they are due. */
	*more_out = loader_left_behind(l, c, found);
	if (part == LANES_OWN)
		lanes_progress(&l->lanes, c, found);
	rc = loader_settle_misfires(l, c, found, more_out, err);
	if (rc != RC_OK) {
		free(c);
		return rc;
	}
	l->moved = loader_moved(l, c, found, room);
	loader_keep_chosen(c, found);
	if (chosen > 0 && node_may_act(n, incarnation, clock_boot_us())) {
		chain = loader_claim(l, incarnation, c, chosen, part == LANES_OTHERS, &won);
	}
	if (part == LANES_OTHERS && won == 0)
		*more_out = false; /* another node is doing it */
	boss_give(n->boss, chain, (struct room){0});
	free(c);
	return RC_OK;
}

/* Between two heartbeats: we were busy and will now sleep, so we want the bell; look
 * again after that is written. */
static bool
want_bell(struct loader *l)
{
	struct err err = {0};

	if (atomic_load(&l->node->hungry) > 0 || atomic_exchange(&l->node->bell_written, true))
		return false;
	if (l->store->node_bell(l->db, atomic_load(&l->node->node_id), atomic_load(&l->node->incarnation),
		true, &err) != RC_OK) {
		atomic_store(&l->node->bell_written, false);
		return false;
	}
	return true;
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
	l->bell_rang = false;
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

/* A server may be reconfigured or replaced: what it can promise is asked with every full look, and first of
 * all on a new connection. */
static enum rc
check_durable(struct loader *l, struct err *err)
{
	bool durable, full = clock_mono_us() >= l->next_full_us;
	enum rc rc;

	if (!full && db_conn(l->db) != NULL)
		return RC_OK;
	rc = l->store->durable(l->db, l->node->set->at_most_once_async, &durable, err);
	if (rc == RC_OK && atomic_exchange(&l->node->durable, durable) != durable) {
		log_warn("durable", "at_most_once=\"%s\" reason=\"%s\"", durable ? "taken" : "left to others",
		    durable ? "" : err->text);
		l->next_full_us = 0; /* other tasks are for us now */
	}
	return rc;
}

static enum rc
steal(struct loader *l, struct room room, int64_t now, bool *more_out, struct err *err)
{
	enum rc rc = RC_OK;

	room.timed = 0;
	lanes_part(&l->lanes, LANES_OTHERS, NULL, room.ready, 0, l->backoff.random >> 20, &l->query);
	l->backoff.random = pgrab_mix64(l->backoff.random);
	if (l->query.n_lanes > 0)
		rc = look_and_claim(l, LANES_OTHERS, room, more_out, err);
	l->next_steal_us = *more_out ? now : now + l->node->set->poll_us;
	return rc;
}

/* Has there been nothing to do for a while, and will we be told when that changes? */
static bool
is_quiet(const struct loader *l, int64_t now)
{
	return atomic_load(&l->node->bell_heard) && atomic_load(&l->node->bell_written) && !l->hungry &&
	       lanes_fit(&l->lanes) && now - l->found_us > QUIET_AFTER_US &&
	       l->node->set->poll_us < QUIET_POLL_US;
}

/* When to look next if nothing rings. */
static int64_t
next_look(struct loader *l, int64_t now)
{
	int64_t poll_us = l->node->set->poll_us;

	if (l->quiet)
		return now + (l->later_us < QUIET_POLL_US ? l->later_us : QUIET_POLL_US);
	if (now >= l->echo_us && l->echo_gap_us < poll_us) {
		l->echo_gap_us *= 2;
		l->echo_us = now + l->echo_gap_us;
	}
	return l->echo_gap_us < poll_us ? l->echo_us : now + poll_us;
}

/* Says which crews have tasks that were left behind or not looked at: when such a crew has room
 * again, the boss wakes us. */
static void
say_wants(struct loader *l, const bool *wants)
{
	for (size_t i = 0; i < CREWS_MAX; i++) {
		if (wants[i] != l->said[i])
			atomic_fetch_add(&l->node->wanting[i], wants[i] ? 1 : -1);
		l->said[i] = wants[i];
	}
}

static void
within_quota(struct loader *l, struct room *room)
{
	for (size_t i = 0; i <= handlers_count(l->node->handlers); i++)
		room->ready[i] = strategy_quota(l->strategy, &l->cluster->view, room->ready[i]);
}

/* Does all that a wake-up asks for.  Returns when to look next (clock_mono_us; 0: at once). */
static int64_t
look(struct loader *l, bool only_rung, const struct pgrab_shard_set *bell, struct err *err, enum rc *rc_out)
{
	struct node *n = l->node;
	struct room room = boss_take_room(n->boss), taken = room;
	int64_t now = clock_mono_us();
	bool more = false, some;

	l->moved = false;
	memset(l->wants, 0, sizeof l->wants);
	*rc_out = RC_OK;
	l->quiet = is_quiet(l, now) && room.timed > 0;
	l->later_us = INT64_MAX;
	within_quota(l, &room);
	some = room_ready(&room) + room.timed > 0;
	if (some)
		*rc_out = check_durable(l, err);
	if (*rc_out == RC_OK && some)
		*rc_out = loader_refresh_lanes(l, err);
	if (*rc_out == RC_OK && some) {
		bool full = now >= l->next_full_us;
		bool rung = only_rung && !full && !l->hungry;

		enum lanes_part part = rung ? LANES_RUNG : LANES_OWN;

		lanes_part(&l->lanes, part, bell, room.ready, room.timed, 0, &l->query);
		if (l->query.n_lanes > 0)
			*rc_out = look_and_claim(l, part, room, &more, err);
		if (full)
			l->next_full_us = now + n->set->poll_us;
	}
	if (*rc_out == RC_OK && !more && room_ready(&room) > 0 && now >= l->next_steal_us)
		*rc_out = steal(l, room, now, &more, err);
	/* Hungry: rows are left that another look would find, or there was no room to look at all. */
	set_hungry(l, (more && l->moved) || room_ready(&taken) == 0);
	for (size_t i = 0; i < CREWS_MAX; i++)
		l->wants[i] = l->wants[i] || room_ready(&taken) == 0 ||
			      (taken.ready[i] <= 0 && lanes_has_crew(&l->lanes, i));
	say_wants(l, l->wants);
	boss_give(n->boss, NULL, taken);
	if (*rc_out != RC_OK)
		return l->retry_us = now + backoff_next_us(&l->backoff);
	if (room_ready(&taken) + taken.timed > 0) /* else nobody was asked */
		backoff_reset(&l->backoff);
	if (more && room_ready(&room) <
			room_ready(&taken)) /* the strategy's quota: wait for a new picture of the others */
		return now + n->set->heartbeat_us;
	if (more && l->moved)
		return 0;
	if (!l->hungry && want_bell(l)) {
		loader_expect_echoes(l);
		return 0;
	}
	return next_look(l, now);
}

bool
loader_round(struct loader *l)
{
	struct pgrab_shard_set bell;
	struct err err = {0};
	enum rc rc = RC_OK;
	enum gate_wake wake = gate_wait(&l->gate, l->next_us);

	ASSERT_OWNED(&l->owner);
	if (wake == GATE_RUNG && !l->hungry && !gate_pause(&l->gate, l->looked_us + LOOK_GAP_US))
		wake = GATE_STOPPED;
	if (wake == GATE_STOPPED)
		return false;
	if (clock_mono_us() < l->retry_us) { /* whatever rang: the last answer was a refusal */
		l->next_us = l->retry_us;
		return true;
	}
	loader_refresh_cluster(l);
	loader_publish_shards(l);
	bool only_rung = take_bell(l, &bell) && wake == GATE_RUNG;

	if (!may_look(l)) {
		l->next_us = clock_mono_us() + l->node->set->poll_us;
		return true;
	}
	l->next_us = look(l, only_rung, &bell, &err, &rc);
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
	say_wants(l, (bool[CREWS_MAX]){false});
	db_disconnect(l->db);
}

void *
loader_main(void *arg)
{
	struct loader *l = arg;

	owner_take(&l->owner);
	while (loader_round(l))
		;
	loader_end(l);
	return NULL;
}
