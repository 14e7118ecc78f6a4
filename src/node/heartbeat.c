/*
 * Heartbeat.  Each beat: one HOT update of the own row (the lease counts from before it was sent), one
 * reading of all rows.
 *
 * Fence.  When the lease has run out, or the row says that we were declared dead or replaced, this node
 * stops: nothing more is claimed, started or finished (incarnation 0), the keeper's lease is dropped so that
 * child processes die, the boss drops what is unstarted and stops what runs.  Only when nothing of the old
 * incarnation is left is a new one registered, and what the old one held is put back, like a stranger's.
 */
#include "node/heartbeat.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "keeper/keeper.h"
#include "node/boss.h"
#include "node/context.h"
#include "node/early.h"
#include "node/recover.h"

#define CLOCK_SAMPLES 8

struct heartbeat {
	struct node *node; /* borrowed */
	pthread_t thread;
	struct gate gate;
	void (*changed)(void *ctx);
	void *changed_ctx;

	/* owned by the thread (by main before it starts) */
	struct db *db;
	struct members members;
	struct backoff backoff;
	int64_t ahead[CLOCK_SAMPLES]; /* db clock - mono, lower bounds of the last beats */
	unsigned n_ahead;
	char host[256];
	int64_t mine; /* the last incarnation we tried to register */
	bool in_order;
};

static int64_t
new_incarnation(void)
{
	int64_t v = 0;

	while (v == 0) {
		if (getrandom(&v, sizeof v, 0) != sizeof v)
			abort();
		v &= INT64_MAX;
	}
	return v;
}

static void
renew(struct heartbeat *h, int64_t sent_boot_us)
{
	lease_renew(&h->node->lease, sent_boot_us, h->node->set->fence_after_us);
	if (h->node->keeper != NULL)
		keeper_lease(h->node->keeper, lease_until(&h->node->lease));
}

/* The database's clock against ours.  A reading was made before its answer came, so each sample is at most
 * the truth: the largest is the best. */
static void
note_clock(struct heartbeat *h, int64_t db_now_us, int64_t mono_us)
{
	int64_t best = INT64_MIN;

	h->ahead[h->n_ahead++ % CLOCK_SAMPLES] = db_now_us - mono_us;
	for (unsigned i = 0; i < CLOCK_SAMPLES && i < h->n_ahead; i++)
		best = h->ahead[i] > best ? h->ahead[i] : best;
	atomic_store(&h->node->db_ahead_us, best);
}

static enum rc
observe(struct heartbeat *h, struct err *err)
{
	int64_t db_now = 0;
	enum rc rc = store_node_observe(h->db, &h->members, &db_now, err);

	if (rc == RC_OK && db_now != 0)
		note_clock(h, db_now, clock_mono_us());
	return rc;
}

static void
publish(struct heartbeat *h)
{
	struct node *n = h->node;
	struct cluster *c = cluster_build(&h->members, atomic_load(&n->node_id), node_draining(n));
	struct cluster *old = cluster_slot_get(&n->cluster);
	bool same = cluster_same_shape(c, old);

	cluster_put(&n->cluster, old);
	cluster_slot_set(&n->cluster, c);
	if (!same && h->changed != NULL)
		h->changed(h->changed_ctx);
	for (size_t i = 0; i < h->members.count; i++) {
		const struct member *m = &h->members.item[i];

		if (m->id != atomic_load(&n->node_id) && member_dead(m))
			recover_dead(n->recover, m);
	}
}

static struct node_beat
make_beat(struct heartbeat *h)
{
	struct node *n = h->node;
	struct node_beat b = {.node_id = atomic_load(&n->node_id),
	    .incarnation = atomic_load(&n->incarnation),
	    .draining = node_draining(n),
	    .bell = atomic_load(&n->hungry) == 0,
	    .in_hand = atomic_load(&n->in_hand),
	    .running = atomic_load(&n->running)};

	for (int i = 0; i < COUNT__COUNT; i++)
		b.add[i] = atomic_exchange(&n->count[i], 0);
	return b;
}

/* What did not go through is counted again with the next beat.  (After a lost reply it may be counted twice:
 * these are numbers for people.) */
static void
give_back_counts(struct heartbeat *h, const struct node_beat *b)
{
	for (int i = 0; i < COUNT__COUNT; i++)
		node_count(h->node, i, b->add[i]);
}

/* A person's drain.  (A node that stops drains anyway, and the boss knows.) */
static void
obey_drain(struct node *n, bool wanted)
{
	if (wanted == atomic_load(&n->drained))
		return;
	atomic_store(&n->drained, wanted);
	log_info(wanted ? "drain" : "undrain", "node=%s", n->set->name);
	if (wanted)
		boss_drain(n->boss);
	else
		boss_undrain(n->boss);
}

static void
obey(struct heartbeat *h, const struct node_wishes *w)
{
	obey_drain(h->node, w->drain);
	for (size_t i = 0; i < w->n_stops; i++)
		boss_cancel(h->node->boss, w->stop[i].id, w->stop[i].version);
}

static enum rc
beat(struct heartbeat *h, struct err *err)
{
	struct node_beat b = make_beat(h);
	struct node_wishes wishes;
	int64_t sent = clock_boot_us();
	enum rc rc = store_node_beat(h->db, &b, &wishes, err);

	/* A lease that ran out is not renewed: what it covered has been stopped. */
	if (rc == RC_OK && !lease_holds(&h->node->lease, clock_boot_us()))
		return err_set(err, RC_AGAIN, "the answer came after the lease was over");
	if (rc == RC_OK) {
		renew(h, sent);
		obey(h, &wishes);
		atomic_store(&h->node->bell_written, b.bell);
		rc = observe(h, err);
		if (rc == RC_OK)
			publish(h);
	} else {
		give_back_counts(h, &b);
	}
	return rc;
}

static struct node_identity
identity(struct heartbeat *h)
{
	const struct node *n = h->node;

	return (struct node_identity){.name = n->set->name,
	    .host = h->host,
	    .version = PGRAB_VERSION,
	    .strategy = n->set->strategy,
	    .labels = n->labels,
	    .kinds = n->kinds,
	    .pid = getpid(),
	    .slots = n->set->workers,
	    .heartbeat_us = n->set->heartbeat_us,
	    .dead_after_us = n->set->dead_after_us,
	    .weight = n->set->weight};
}

/* Registers a new incarnation in place of holder; a lost reply is looked up.  On success the lease holds. */
static enum rc
take_name(struct heartbeat *h, const struct node_holder *holder, struct err *err)
{
	struct node_identity who = identity(h);
	struct node_holder now;
	int64_t incarnation = new_incarnation(), id = 0, sent = clock_boot_us();
	enum rc rc;

	h->mine = incarnation;
	rc = store_node_register(h->db, &who, incarnation, holder, &id, err);

	if (rc == RC_UNKNOWN) {
		enum rc looked = store_node_find(h->db, who.name, &now, err);

		if (looked == RC_OK && now.exists && now.incarnation == incarnation) {
			id = now.id;
			rc = RC_OK;
		}
	}
	if (rc != RC_OK)
		return rc;
	atomic_store(&h->node->node_id, id);
	renew(h, sent);
	rc = observe(h, err); /* the clock has to be known before anything is claimed */
	if (rc != RC_OK)
		return rc;
	atomic_store(&h->node->bell_written, true);
	atomic_store(&h->node->incarnation, incarnation);
	keeper_vouch(h->node->keeper, id, incarnation);
	log_info("registered", "node=%s id=%" PRId64 " incarnation=%" PRId64, who.name, id, incarnation);
	return RC_OK;
}

/* --- before the threads: the name
 * ---------------------------------------------------------------------------------------- */

/* Watches the holder of our name until it is down, or its beat stood still for its dead_after; RC_BAD when it
 * beats. */
static enum rc
wait_for_name(struct heartbeat *h, struct node_holder *holder, struct err *err)
{
	struct node_holder first;
	int64_t since = clock_mono_us();
	enum rc rc = store_node_find(h->db, h->node->set->name, &first, err);

	*holder = first;
	if (rc != RC_OK || !first.exists || first.down || first.incarnation == h->mine)
		return rc; /* free; or ours, from a try whose answer was lost */
	log_info("name_taken", "node=%s host=%s pid=%" PRId64 " wait_ms=%" PRId64 " hint=\"%s\"",
	    h->node->set->name, first.host, first.pid, first.dead_after_us / US_PER_MS,
	    "it did not say goodbye; waiting until it is seen to be silent");
	while (clock_mono_us() - since < first.dead_after_us) {
		if (!early_wait(h->node->set->heartbeat_us))
			return RC_CLOSED;
		rc = store_node_find(h->db, h->node->set->name, holder, err);
		if (rc != RC_OK || !holder->exists || holder->down)
			return rc;
		if (holder->incarnation != first.incarnation || holder->beat != first.beat)
			return err_set(err, RC_BAD,
			    "a live node has the name \"%s\" (host %s, process %" PRId64
			    "); stop it, or start this one with another --name",
			    h->node->set->name, holder->host, holder->pid);
	}
	return RC_OK;
}

static enum rc
register_first(struct heartbeat *h, struct err *err)
{
	bool waiting = false;

	do {
		struct node_holder holder;
		enum rc rc = wait_for_name(h, &holder, err);

		if (rc == RC_OK)
			rc = take_name(h, &holder, err);
		if (rc == RC_OK || rc == RC_BAD || rc == RC_CLOSED)
			return rc;
		if (!waiting)
			log_warn("waiting", "for=database error=\"%s\"", err->text);
		waiting = true;
	} while (early_wait(backoff_next_us(&h->backoff)));
	return RC_CLOSED;
}

enum rc
heartbeat_create(struct node *n, struct heartbeat **out, struct err *err)
{
	struct heartbeat *h = xcalloc(1, sizeof *h);
	enum rc rc;

	h->node = n;
	gate_init(&h->gate);
	if (gethostname(h->host, sizeof h->host - 1) != 0)
		strcpy(h->host, "?");
	h->db = db_create(n->set->dsn, "pgrab heartbeat", n->set->fence_after_us / 2);
	members_init(&h->members, 2 * n->set->heartbeat_us + US_PER_S);
	backoff_init(
	    &h->backoff, 100 * US_PER_MS, 5 * US_PER_S, (uint64_t)clock_mono_us() ^ (uint64_t)getpid());
	rc = register_first(h, err);
	if (rc == RC_OK) {
		backoff_reset(&h->backoff);
		*out = h;
		return RC_OK;
	}
	db_destroy(&h->db);
	members_fini(&h->members);
	gate_fini(&h->gate);
	free(h);
	*out = NULL;
	return rc;
}

/* --- fence
 * -----------------------------------------------------------------------------------------------------------------
 */

static void
stop_acting(struct heartbeat *h, const char *why)
{
	struct node *n = h->node;

	log_error("fenced", "node=%s incarnation=%" PRId64 " reason=\"%s\"", n->set->name,
	    atomic_load(&n->incarnation), why);
	atomic_store(&n->incarnation, 0);
	lease_drop(&n->lease);
	if (n->keeper != NULL)
		keeper_lease(n->keeper, 0);
	node_count(n, COUNT_FENCES, 1);
	boss_fence(n->boss);
}

/* One try to come back; the gate waits between tries. */
static enum rc
come_back(struct heartbeat *h, int64_t old, struct err *err)
{
	struct node_holder holder;
	enum rc rc = store_node_find(h->db, h->node->set->name, &holder, err);

	if (rc == RC_OK && holder.exists && !holder.down && holder.incarnation != old &&
	    holder.incarnation != h->mine)
		return err_set(err, RC_AGAIN, "another node took the name \"%s\"", h->node->set->name);
	if (rc == RC_OK)
		rc = take_name(h, &holder, err);
	if (rc == RC_OK) {
		recover_incarnation(h->node->recover, old);
		publish(h);
	}
	return rc;
}

/* From the loss of the lease to a new incarnation.  Returns early on stop. */
static void
fence(struct heartbeat *h, int64_t old, const char *why)
{
	struct err err = {0};

	stop_acting(h, why);
	/* Everything of the old incarnation has to be gone first.  Each wait is short, so that stop is seen.
	 */
	while (!boss_wait_empty(h->node->boss, clock_mono_us() + 200 * US_PER_MS)) {
		if (gate_stopped(&h->gate))
			return;
	}
	backoff_reset(&h->backoff);
	while (!gate_stopped(&h->gate)) {
		enum rc rc = come_back(h, old, &err);

		if (rc == RC_OK) {
			backoff_reset(&h->backoff);
			return;
		}
		if (h->backoff.tries % 32 == 0)
			log_warn("waiting", "for=lease error=\"%s\"", err.text);
		gate_wait(&h->gate, clock_mono_us() + backoff_next_us(&h->backoff));
	}
}

static void *
heartbeat_main(void *arg)
{
	struct heartbeat *h = arg;
	struct node *n = h->node;
	int64_t next = clock_mono_us();

	while (gate_wait(&h->gate, next) != GATE_STOPPED) {
		int64_t incarnation = atomic_load(&n->incarnation);
		struct err err = {0};
		enum rc rc = beat(h, &err);

		next = clock_mono_us() + n->set->heartbeat_us;
		if (rc == RC_OK) {
			backoff_reset(&h->backoff);
			continue;
		}
		if (rc == RC_LOST && err.sqlstate[0] == '\0') {
			fence(h, incarnation, err.text);
		} else if (!lease_holds(&n->lease, clock_boot_us())) {
			fence(h, incarnation, "no heartbeat got through for fence_after");
		} else {
			if (h->backoff.tries == 0)
				log_warn("heartbeat", "answer=%s error=\"%s\"", rc_name(rc), err.text);
			next = clock_mono_us() + backoff_next_us(&h->backoff) / 2;
			/* The lease is looked at when it ends, whatever the server does. */
			int64_t left = lease_until(&n->lease) - clock_boot_us();

			if (next > clock_mono_us() + left)
				next = clock_mono_us() + (left > 0 ? left : 0);
		}
	}
	if (h->in_order && atomic_load(&n->incarnation) != 0) {
		struct err err = {0};
		struct node_beat last = make_beat(h);
		struct node_wishes ignored;

		last.draining = true;
		if (store_node_beat(h->db, &last, &ignored, &err) != RC_OK ||
		    store_node_leave(h->db, last.node_id, last.incarnation, &err) != RC_OK)
			log_warn(
			    "goodbye", "error=\"%s\" hint=\"others will notice by the silence\"", err.text);
	}
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
heartbeat_ring(struct heartbeat *h)
{
	gate_ring(&h->gate);
}

void
heartbeat_stop(struct heartbeat **hp, bool in_order)
{
	struct heartbeat *h = *hp;

	h->in_order = in_order;
	gate_stop(&h->gate);
	thread_join(h->thread);
	db_destroy(&h->db);
	members_fini(&h->members);
	gate_fini(&h->gate);
	free(h);
	*hp = NULL;
}
