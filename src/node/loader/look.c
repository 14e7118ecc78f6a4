/*
 * What a loader does with a wake-up: it looks, and claims what the look found.  The thread is loader.c.
 *
 * Low-water marks.  While one round follows another, the look begins in each shard at the last due time it
 * has read there: dead index entries pile up at the head when an old snapshot is held.  A look after a sleep
 * begins at the beginning, and so does one in every `poll`: rows that were committed late, or handed back,
 * have an older due time than the mark.
 *
 * Steal.  What is late by steal_after in shards of others is claimed too, but only when nothing is left to
 * do in our own: once per poll, and on from there while there is more and we win some of it.  Among many
 * nodes each look reads another part of their shards (lanes/shards.c).  A node with nothing to do sleeps for
 * longer than a poll, so it notes what they have planned, and wakes up if the owner may have left it.
 */
#include "node/loader/private.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "strategy/host.h"

#define DURABLE_EVERY_US (60 * US_PER_S)

/* A server may be reconfigured or replaced: what it can promise is asked first of all on a new connection,
 * and now and then; with every full look while it promises too little.  (The starter asks before each start
 * of an at_most_once task.) */
static enum rc
check_durable(struct loader *l, struct err *err)
{
	bool durable = atomic_load(&l->node->durable);
	int64_t now = clock_mono_us();
	enum rc rc;

	if (db_conn(l->db) != NULL && now < (durable ? l->next_durable_us : l->next_full_us))
		return RC_OK;
	rc = l->store->durable(l->db, l->node->set->at_most_once_async, &durable, err);
	if (rc == RC_OK)
		l->next_durable_us = now + DURABLE_EVERY_US;
	if (rc == RC_OK && atomic_exchange(&l->node->durable, durable) != durable) {
		log_warn("durable", "at_most_once=\"%s\" reason=\"%s\"", durable ? "taken" : "left to others",
		    durable ? "" : err->text);
		l->next_full_us = 0; /* other tasks are for us now */
	}
	return rc;
}

/* Fills in the query, except its lanes, which are there already, and asks it. */
static enum rc
ask(struct loader *l, enum lanes_part part, bool marks, struct candidate **c, size_t *found, struct err *err)
{
	struct node *n = l->node;
	struct look_query *q = &l->query;
	enum rc rc;

	q->able = node_ability(n);
	q->once = atomic_load(&n->durable);
	q->marks = marks;
	q->free = clock_mono_us() < l->contended_until_us;
	q->unlimited = part == LANES_URGENT; /* nothing gives way to what may get no place */
	rc = l->store->look(l->db, q, c, found, err);
	l->looked_us = clock_mono_us();
	if (rc == RC_OK && *found > 0)
		l->ahead_us = (*c)->due_us + (*c)->late_us - l->looked_us;
	if (rc == RC_OK && *found > 0)
		loader_note_clock(l);
	return rc;
}

static void
look_anew(struct loader *l, int64_t now, int64_t in_us)
{
	if (in_us < l->anew_us - now)
		l->anew_us = now + in_us;
}

/* How long until we may take the first of these: an own one lookahead before it is due, one of others
 * steal_after behind that; or when we may take those that prefer other nodes.  0 or less: now. */
static int64_t
until_first(const struct loader *l, const struct candidate *c, size_t n)
{
	const struct settings *set = l->node->set;
	int64_t first_us = INT64_MAX;

	for (size_t i = 0; i < n; i++) {
		bool own = lanes_own(&l->lanes, c[i].lane, c[i].shard);
		int64_t late_us = lanes_late_us(&l->lanes, c[i].lane, -set->lookahead_us);
		int64_t until_us = own || late_us > set->steal_after_us ? late_us : set->steal_after_us;

		until_us -= c[i].late_us;
		if (until_us < first_us)
			first_us = until_us;
	}
	return first_us;
}

/* In which shards of others there is something that may be taken before reach_us: they are read again then,
 * whichever are watched.  What an earlier look has seen beyond that is kept. */
static void
note_again(struct loader *l, const struct candidate *c, size_t n, int64_t reach_us)
{
	if (reach_us >= l->again_until_us) {
		l->lanes.again = (struct pgrab_shard_set){0};
		l->again_until_us = reach_us;
	}
	for (size_t i = 0; i < n; i++) {
		if (!lanes_own(&l->lanes, c[i].lane, c[i].shard))
			pgrab_shard_add(&l->lanes.again, c[i].shard);
	}
}

int64_t
loader_round_us(const struct loader *l)
{
	return l->node->set->poll_us * watch_rounds(l->cluster == NULL ? 1 : l->cluster->view.n_nodes);
}

static int64_t
own_ahead(const struct loader *l, const struct room *room)
{
	return room->timed > 0 ? l->node->set->lookahead_us + (l->quiet ? QUIET_POLL_US : 0) : 0;
}

/* What is in other nodes' shards they begin, if they can, or others steal it, by then: nothing gives way to
 * what a node with a free worker takes. */
static int64_t
part_ahead(const struct loader *l, enum lanes_part part, const struct room *room)
{
	const struct settings *set = l->node->set;
	int64_t taken_us = set->steal_after_us + loader_round_us(l);

	if (part == LANES_URGENT)
		return -(set->preempt_after_us > taken_us ? set->preempt_after_us : taken_us);
	return part < LANES_OTHERS ? own_ahead(l, room) : -set->steal_after_us;
}

static enum rc
look(struct loader *l, enum lanes_part part, const struct room *room, struct candidate **c, size_t *found,
    struct err *err)
{
	bool marks = part == LANES_OWN && l->hungry && clock_mono_us() < l->next_full_us;

	look_ahead(
	    &l->query, 0, part_ahead(l, part, room), part < LANES_OTHERS && l->quiet ? QUIET_POLL_US : 0);
	return ask(l, part, marks, c, found, err);
}

/* Of what was not put off. */
static bool
any_for_now(const struct candidate *c, size_t n)
{
	size_t i = 0;

	while (i < n && c[i].refused)
		i++;
	return i < n;
}

/* Claims what is chosen of c[0..found) for the boss.  Returns how many were won. */
static size_t
claim_chosen(struct loader *l, int64_t incarnation, struct candidate *c, size_t found, size_t chosen,
    struct room *room, enum lanes_part part)
{
	size_t small = loader_keep_chosen(c, found), won = 0;
	enum beginning begin;

	if (chosen == 0 || node_draining(l->node) || !node_may_act(l->node, incarnation, clock_boot_us()))
		return 0;
	room->begins -= loader_for_workers(l, c, small);
	begin = part == LANES_URGENT ? BEGIN_NONE : room->begins >= 0 ? BEGIN_ALL : BEGIN_SOME;
	if (small > 0)
		won = loader_claim(l, incarnation, c, small, begin, part == LANES_OTHERS);
	if (small < chosen)
		won +=
		    loader_claim(l, incarnation, c + small, chosen - small, BEGIN_NONE, part == LANES_OTHERS);
	return won;
}

/* One look and one claim.  *more_out: rows were left behind.  RC_OK even if nothing was found. */
static enum rc
look_and_claim(struct loader *l, enum lanes_part part, struct room *room, bool *more_out, struct err *err)
{
	int64_t incarnation = atomic_load(&l->node->incarnation);
	struct candidate *c = NULL;
	size_t found = 0, chosen, won;
	int64_t settled;
	enum rc rc = look(l, part, room, &c, &found, err);

	if (rc != RC_OK)
		return rc;
	look_anew(l, l->looked_us, loader_put_off(l, c, found, room));
	l->for_now = any_for_now(c, found);
	if (l->for_now)
		l->found_us = l->looked_us;
	chosen = loader_choose(l, part, c, found, *room);
	/* Tasks that are not due yet and found no room can wait: they are seen again when they are due. */
	*more_out = loader_left_behind(l, c, found);
	lanes_found(&l->lanes, c, found);
	if (part == LANES_OWN)
		lanes_progress(&l->lanes, &l->query, c, found);
	rc = loader_settle_misfires(l, c, found, &settled, err);
	if (rc == RC_OK) {
		*more_out = *more_out || settled > 0;
		l->moved = settled > 0 || loader_moved(l, c, found, *room);
		won = claim_chosen(l, incarnation, c, found, chosen, room, part);
		if (part == LANES_OTHERS && won == 0)
			*more_out = false; /* another node is doing it */
	}
	free(c);
	return rc;
}

static enum lanes_part
own_part(const struct loader *l, const struct wakeup *w)
{
	return w->only_rung && w->now < l->next_full_us && !l->deaf ? LANES_RUNG : LANES_OWN;
}

/* A shard rang, and the look is not at those that rang: of many lanes it reads what a survey knows. */
static bool
rang_unknown(const struct loader *l, const struct wakeup *w)
{
	return loader_any_rang(w) && !l->deaf && own_part(l, w) == LANES_OWN;
}

/* Looks in our own shards, or only in those that rang if nothing else woke us. */
static enum rc
look_at_own(struct loader *l, struct wakeup *w, struct err *err)
{
	bool full = w->now >= l->next_full_us;
	enum lanes_part part = own_part(l, w);
	enum rc rc = RC_OK;

	loader_spare_dry(l, w);
	w->spared = l->lanes.spare;
	lanes_part(&l->lanes, part, w->bell, w->room.ready, w->room.timed, 0, &l->query);
	w->looked = l->query.n_lanes > 0;
	if (w->looked)
		rc = look_and_claim(l, part, &w->room, &w->more, err);
	if (part == LANES_OWN)
		loader_note_dry(l, w);
	w->found = w->looked && l->for_now;
	if (full)
		l->next_full_us = w->now + l->node->set->poll_us;
	return rc;
}

/* The room of the crews whose turn it is to steal. */
static struct room
steal_room(const struct loader *l, const struct wakeup *w)
{
	struct room room = w->room;

	room.timed = 0;
	for (size_t i = 0; i < CREWS_MAX; i++)
		room.ready[i] = w->now >= l->next_steal_us[i] ? room.ready[i] : 0;
	return room;
}

static void
next_steal(struct loader *l, const struct room *room, int64_t at_us)
{
	for (size_t i = 0; i < CREWS_MAX; i++)
		l->next_steal_us[i] = room->ready[i] > 0 ? at_us : l->next_steal_us[i];
}

static enum rc
steal(struct loader *l, struct wakeup *w, struct err *err)
{
	struct room room = steal_room(l, w);
	enum rc rc = RC_OK;

	w->room.timed = 0;
	lanes_part(&l->lanes, LANES_OTHERS, NULL, room.ready, 0, l->backoff.random >> 20, &l->query);
	l->backoff.random = pgrab_mix64(l->backoff.random);
	if (l->query.n_lanes > 0)
		rc = look_and_claim(l, LANES_OTHERS, &w->room, &w->more, err);
	/* Where there is always more it goes on all the same: what is older may be elsewhere. */
	if (rc == RC_OK && (!w->more || w->now - l->watched_us >= l->node->set->poll_us)) {
		lanes_watch_next(&l->lanes);
		l->watched_us = w->now;
	}
	next_steal(l, &room, w->more ? w->now : w->now + l->node->set->poll_us);
	return rc;
}

/* Did the last looks in our own shards, and in those of others, find nothing? */
static bool
is_idle(const struct loader *l, const struct wakeup *w)
{
	struct room room = steal_room(l, w);

	return !w->only_rung && !l->hungry && room_ready(&room) > 0 && lanes_fit(&l->lanes) &&
	       w->now >= l->next_full_us && w->now - l->found_us > l->node->set->poll_us;
}

/* Then both are one statement, and what may be taken before the next one sets when that is.  What may be
 * taken now is looked at again, by the nodes that may take it. */
static enum rc
look_for_anything(struct loader *l, const struct wakeup *w, bool *nothing, struct err *err)
{
	int64_t next_us = l->quiet ? QUIET_POLL_US : l->node->set->poll_us, first_us;
	struct look_query *q = &l->query;
	struct candidate *c = NULL;
	size_t found = 0, own;
	enum rc rc;

	lanes_part(&l->lanes, LANES_OWN, NULL, w->room.ready, w->room.timed, 0, q);
	own = q->n_lanes;
	lanes_add(&l->lanes, LANES_OTHERS, NULL, w->room.ready, 0, l->backoff.random >> 20, q);
	if (q->n_lanes == own)
		return RC_OK; /* nobody else has shards: there is one statement anyway */
	look_ahead(q, 0, own_ahead(l, &w->room), next_us);
	look_ahead(q, own, next_us - l->node->set->steal_after_us, next_us);
	rc = ask(l, LANES_OWN, false, &c, &found, err);
	first_us = until_first(l, c, found);
	if (rc == RC_OK)
		note_again(l, c, found, l->looked_us + next_us);
	if (rc == RC_OK && first_us > 0) {
		*nothing = true;
		lanes_watch_next(&l->lanes);
		look_anew(l, l->looked_us, first_us);
		look_anew(l, w->now, next_us);
		l->next_full_us = w->now + l->node->set->poll_us;
		next_steal(l, &w->room, l->next_full_us);
	}
	free(c);
	return rc;
}

/* Once in a poll: of what has waited too long for crews without a free worker, as much as others give way
 * to.  Of other nodes' shards too: they may have nothing that does. */
static struct room
urgent_room(struct loader *l, const struct wakeup *w)
{
	struct room room = w->taken;
	bool now = w->now >= l->next_urgent_us;

	room.timed = 0;
	for (size_t i = 0; i < CREWS_MAX; i++) {
		room.before[i] = INT64_MAX;
		room.ready[i] = now && w->room.ready[i] <= 0 && room.urgent[i] > 0 ? room.urgent[i] : 0;
	}
	if (room_ready(&room) > 0)
		l->next_urgent_us = w->now + l->node->set->poll_us;
	return room;
}

static enum rc
look_for_urgent(struct loader *l, struct room *room, struct err *err)
{
	bool more;

	lanes_urgent(&l->lanes, room->ready, room->from_band, l->backoff.random >> 20, &l->query);
	l->backoff.random = pgrab_mix64(l->backoff.random);
	return l->query.n_lanes > 0 ? look_and_claim(l, LANES_URGENT, room, &more, err) : RC_OK;
}

static bool
may_steal(const struct loader *l)
{
	return l->cluster == NULL || strategy_may_steal(l->strategy, &l->cluster->view);
}

enum rc
loader_look(struct loader *l, struct wakeup *w, struct err *err)
{
	struct room room = steal_room(l, w), urgent = urgent_room(l, w);
	bool nothing = false;
	enum rc rc;

	ASSERT_MINE(&l->only);
	if (room_ready(&w->room) + w->room.timed + room_ready(&urgent) <= 0 && !lanes_any_large(&l->lanes))
		return RC_OK;
	rc = check_durable(l, err);
	if (rc == RC_OK)
		rc = loader_refresh_lanes(l, err);
	l->survey_soon = l->survey_soon || rang_unknown(l, w);
	if (rc == RC_OK)
		rc = loader_survey(l, err);
	if (rc == RC_OK && is_idle(l, w))
		rc = look_for_anything(l, w, &nothing, err);
	if (nothing)
		return RC_OK;
	if (rc == RC_OK)
		rc = look_at_own(l, w, err);
	if (rc == RC_OK && !w->more && room_ready(&room) > 0 && may_steal(l))
		rc = steal(l, w, err);
	if (rc == RC_OK && room_ready(&urgent) > 0)
		rc = look_for_urgent(l, &urgent, err);
	return rc;
}
