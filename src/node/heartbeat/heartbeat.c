/*
 * Heartbeat.  Each beat: one new row (the lease counts from before it was sent), now and then with a
 * reading of all nodes' rows.
 *
 * A restart of the server.  While nobody can have taken our tasks the lease goes on: outlast.c.
 *
 * Fence.  When the lease has run out, or the row says that we were declared dead or replaced, this node
 * stops: nothing more is claimed, started or finished (incarnation 0), the keeper's lease is dropped so that
 * child processes die, the boss drops what is unstarted and stops what runs.  Only when nothing of the old
 * incarnation is left is a new one registered, and what the old one held is put back, like another node's.
 */
#include "node/heartbeat/heartbeat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "keeper/keeper.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/heartbeat/private.h"
#include "node/recover/recover.h"
#include "strategy/host.h"

/* Anybody who may connect may ring for a beat: a few are made at once, then one per WISH_US. */
#define WISH_US    (100 * US_PER_MS)
#define WISH_BURST 10
/* Time between two readings of all nodes, per node of the cluster. */
#define OTHERS_US (40 * US_PER_MS)

void
heartbeat_renew(struct heartbeat *h, int64_t sent_boot_us)
{
	ASSERT_MINE(&h->only);
	lease_renew(&h->node->lease, sent_boot_us, h->node->set->fence_after_us);
	if (h->node->keeper != NULL)
		keeper_lease(h->node->keeper, lease_until(&h->node->lease));
}

enum rc
heartbeat_observe(struct heartbeat *h, struct err *err)
{
	return h->store->node_observe(h->db, &h->members, err);
}

void
heartbeat_publish(struct heartbeat *h)
{
	struct node *n = h->node;
	struct cluster *c = cluster_build(&h->members, atomic_load(&n->node_id), node_draining(n));
	struct cluster *old = cluster_slot_get(&n->cluster);
	bool same = cluster_same_shape(c, old) && cluster_same_fitness(c, old) && cluster_same_busy(c, old);

	ASSERT_MINE(&h->only);
	cluster_put(&n->cluster, old);
	if (c->view.self < c->view.n_nodes)
		c->busy[c->view.self] = atomic_load(&n->busy);
	atomic_store(&n->helped, cluster_has_free(c));
	cluster_slot_set(&n->cluster, c);
	if (!same && h->changed != NULL)
		h->changed(h->changed_ctx);
	for (size_t i = 0; i < h->members.count; i++) {
		const struct member *m = &h->members.item[i];

		if (m->id != atomic_load(&n->node_id) && member_dead(m))
			recover_dead(n->recover, m);
	}
}

/* A new connection may lead to another server, or to one that was restored: one that went back in time has
 * lost what it promised, so other nodes may have what we run.  RC_LOST: it did go back. */
static enum rc
same_server(struct heartbeat *h, struct err *err)
{
	struct server_mark now;
	struct node_holder row;
	bool other, back;
	enum rc rc = h->store->connect(h->db, err);

	if (rc != RC_OK || (h->generation == h->store->generation(h->db) && !h->store->pooled(h->db)))
		return rc;
	rc = h->store->server_mark(h->db, &now, err);
	if (rc == RC_OK)
		rc = h->store->node_find(h->db, h->node->set->name, &row, err);
	if (rc != RC_OK)
		return rc;
	/* A new timeline has all that a synchronous standby had acknowledged. */
	other =
	    h->server.system != 0 && (now.system != h->server.system ||
					 (strcmp(now.timeline, h->server.timeline) != 0 && !h->server.sync));
	back = row.exists && row.incarnation == atomic_load(&h->node->incarnation) && row.beat < h->beat;
	if (other || back)
		return err_set(err, RC_LOST,
		    "the server went back in time (timeline %s, before %s; beat %" PRId64 ", before %" PRId64
		    "): what it had acknowledged may be gone",
		    now.timeline, h->server.timeline, row.beat, h->beat);
	if (node_server(h->node, h->store->pooled(h->db) ? 0 : db_server_key(now.system, now.timeline)) &&
	    h->changed != NULL)
		h->changed(h->changed_ctx);
	h->server = now;
	h->generation = h->store->generation(h->db);
	h->beat = row.beat;
	return RC_OK;
}

/* A node with nothing in hand has no need of a lease, but others judge it by its beats (member_live). */
static int64_t
idle_beat(const struct heartbeat *h)
{
	int64_t every = 2 * h->node->set->heartbeat_us, most = h->node->set->fence_after_us / 2;

	return every < most ? every : most;
}

int64_t
heartbeat_others_gap(const struct heartbeat *h)
{
	return (int64_t)h->members.count * OTHERS_US;
}

static void
plan_others(struct heartbeat *h)
{
	int64_t every = h->node->set->heartbeat_us, most = h->node->set->dead_after_us / 4;
	int64_t many = heartbeat_others_gap(h), idle = idle_beat(h);

	if (many > every)
		every = many < most || most < every ? many : most;
	h->members.max_gap_us = 2 * (every > idle ? every : idle) + US_PER_S;
	h->next_others_us = clock_mono_us() + every - h->node->set->heartbeat_us / 2;
	h->want_others_us = CLOCK_NEVER;
}

void
heartbeat_want_others(struct heartbeat *h, int64_t at_us)
{
	if (at_us < h->want_others_us)
		h->want_others_us = at_us;
	if (at_us < h->next_us && h->backoff.tries == 0)
		h->next_us = at_us;
}

/* A beat is of no use after the lease, and the end of that must not be seen late. */
static void
end_with_lease(struct heartbeat *h)
{
	db_by(h->db, clock_mono_us() + lease_until(&h->node->lease) - clock_boot_us());
}

static enum rc
beat_now(struct heartbeat *h, struct err *err)
{
	struct node_beat b;
	struct node_wishes wishes;
	int64_t sent = clock_boot_us(), asked;
	bool others = clock_mono_us() >= h->next_others_us || clock_mono_us() >= h->want_others_us;
	enum rc rc = same_server(h, err);

	if (rc != RC_OK)
		return rc;
	heartbeat_fitness(h);
	b = heartbeat_figures(h);
	heartbeat_cut(h, &b);
	end_with_lease(h);
	h->idle = b.gauge[GAUGE_IN_HAND] == 0;
	asked = clock_mono_us();
	if (!b.bell)
		atomic_fetch_add(&h->node->bell_times, 1);
	rc = h->store->node_beat(h->db, &b, &wishes, others ? &h->members : NULL, err);
	h->round_trip_us = clock_mono_us() - asked;

	/* A lease that ran out is not renewed: what it covered has been stopped. */
	if (rc == RC_OK && !lease_holds(&h->node->lease, clock_boot_us()))
		return err_set(err, RC_AGAIN, "the answer came after the lease was over");
	if (rc == RC_OK) {
		h->beat++;
		heartbeat_beaten(h, sent, &b, wishes.durable);
		heartbeat_obey(h, &wishes);
		atomic_store(&h->node->bell_written, b.bell);
		if (others)
			plan_others(h);
		heartbeat_publish(h);
	} else {
		heartbeat_give_back(h, &b);
	}
	return rc;
}

static enum rc
beat(struct heartbeat *h, struct err *err)
{
	enum rc rc;

	if (!lease_holds(&h->node->lease, clock_boot_us()))
		return err_set(err, RC_AGAIN, "the lease is over");
	end_with_lease(h);
	rc = beat_now(h, err);
	db_by(h->db, 0);
	return rc;
}

enum rc
heartbeat_create(struct node *n, struct heartbeat **out, struct err *err)
{
	struct heartbeat *h = xcalloc(1, sizeof *h);
	enum rc rc;

	h->node = n;
	gate_init(&h->gate);
	PTHREAD_OK(pthread_mutex_init(&h->lock, NULL));
	if (gethostname(h->host, sizeof h->host - 1) != 0)
		strcpy(h->host, "?");
	h->store = n->store;
	h->db = db_create(n->set->dsn, "pgrab heartbeat", n->set->fence_after_us / 2);
	db_be(h->db, DB_OF_NODE | DB_KEEPS);
	if (n->set->outlast_restart != OUTLAST_RESTART_OFF)
		db_watch(h->db, n->set->outlast_restart == OUTLAST_RESTART_YES);
	h->want_others_us = CLOCK_NEVER;
	members_init(&h->members, 2 * n->set->heartbeat_us + US_PER_S);
	backoff_init(
	    &h->backoff, 100 * US_PER_MS, 5 * US_PER_S, (uint64_t)clock_mono_us() ^ (uint64_t)getpid());
	rc = heartbeat_fitness_open(h, err);
	if (rc == RC_OK)
		rc = heartbeat_name_first(h, err);
	if (rc == RC_OK) {
		db_be(h->db, DB_PATIENT);
		backoff_reset(&h->backoff);
		*out = h;
		return RC_OK;
	}
	heartbeat_destroy(&h);
	*out = NULL;
	return rc;
}

static void
say_goodbye(struct heartbeat *h)
{
	struct err err = {0};
	struct node_beat last = heartbeat_figures(h);
	struct node_wishes ignored;
	enum rc rc = RC_AGAIN;

	heartbeat_hand_back(h);
	last.draining = true;
	/* Twice: the first may meet a schema that has just been replaced. */
	for (int i = 0; i < 2 && rc == RC_AGAIN; i++) {
		rc = h->store->node_beat(h->db, &last, &ignored, NULL, &err);
		if (rc == RC_OK)
			rc = h->store->node_leave(h->db, last.node_id, last.incarnation, NULL, &err);
	}
	if (rc != RC_OK)
		log_warn(
		    "goodbye", "error=\"%s\" hint=\"others will notice the missing heartbeats\"", err.text);
}

/* After a vain beat, and the fence if it leads to one: returns when to beat again. */
static int64_t
in_vain(struct heartbeat *h, int64_t incarnation, enum rc rc, const struct err *err)
{
	struct lease *lease = &h->node->lease;
	int64_t next = clock_mono_us() + h->node->set->heartbeat_us, left;

	heartbeat_outlast(h);
	if (rc == RC_LOST) {
		heartbeat_fence(h, incarnation, err->text);
	} else if (!lease_holds(lease, clock_boot_us())) {
		heartbeat_fence(h, incarnation, "no heartbeat got through for fence_after");
	} else {
		if (h->backoff.tries == 0)
			log_warn("heartbeat", "answer=%s error=\"%s\"", rc_name(rc), err->text);
		next = clock_mono_us() + backoff_next_us(&h->backoff) / 2;
		/* The lease is checked when it ends, whatever the server does. */
		left = lease_until(lease) - clock_boot_us();
		if (next > clock_mono_us() + left)
			next = clock_mono_us() + (left > 0 ? left : 0);
	}
	return next;
}

/* When the next ring may be answered. */
static int64_t
next_wish(struct heartbeat *h)
{
	int64_t earliest = clock_mono_us() - WISH_BURST * WISH_US;

	h->wish_us = (h->wish_us > earliest ? h->wish_us : earliest) + WISH_US;
	return h->wish_us;
}

static int64_t
next_beat(const struct heartbeat *h)
{
	int64_t next_us = clock_mono_us() + (h->idle ? idle_beat(h) : h->node->set->heartbeat_us);

	return next_us < h->want_others_us ? next_us : h->want_others_us;
}

bool
heartbeat_round(struct heartbeat *h)
{
	enum gate_wake wake = gate_wait(&h->gate, h->next_us);
	int64_t incarnation = atomic_load(&h->node->incarnation), pause;
	struct err err = {0};
	enum rc rc;

	ASSERT_MINE(&h->only);
	if (wake == GATE_STOPPED)
		return false;
	if (!heartbeat_take_heard(h) && clock_mono_us() < h->next_us)
		return true;
	rc = beat(h, &err);
	if (rc != RC_OK) {
		h->next_us = in_vain(h, incarnation, rc, &err);
		return true;
	}
	h->next_us = next_beat(h);
	backoff_reset(&h->backoff);
	end_with_lease(h);
	heartbeat_hand_back(h);
	db_by(h->db, 0);
	heartbeat_tell_change(h);
	pause = next_wish(h);
	if (pause > clock_mono_us())
		(void)gate_pause(&h->gate, pause < h->next_us ? pause : h->next_us);
	return true;
}

static void *
heartbeat_main(void *arg)
{
	struct heartbeat *h = arg;

	one_thread_take(&h->only);
	while (heartbeat_round(h))
		;
	if (h->in_order && atomic_load(&h->node->incarnation) != 0)
		say_goodbye(h);
	return NULL;
}

void
heartbeat_start(struct heartbeat *h, void (*changed)(void *ctx), void *ctx)
{
	h->changed = changed;
	h->changed_ctx = ctx;
	thread_start(&h->thread, "heartbeat", heartbeat_main, h);
}

void
heartbeat_stop(struct heartbeat **hp, bool in_order)
{
	(*hp)->in_order = in_order;
	gate_stop(&(*hp)->gate);
	thread_join((*hp)->thread);
	one_thread_leave(&(*hp)->only);
	heartbeat_destroy(hp);
}

void
heartbeat_destroy(struct heartbeat **hp)
{
	struct heartbeat *h = *hp;

	if (h == NULL)
		return;
	run_leave_all(h->back);
	db_destroy(&h->db);
	members_fini(&h->members);
	buf_fini(&h->crews);
	buf_fini(&h->doubts);
	buf_fini(&h->work);
	strategy_close(&h->strategy);
	gate_fini(&h->gate);
	PTHREAD_OK(pthread_mutex_destroy(&h->lock));
	free(h);
	*hp = NULL;
}
