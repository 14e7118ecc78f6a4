/* The node's name: taking it at the start, and again after a fence; see heartbeat.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/version.h"
#include "keeper/keeper.h"
#include "node/crews/crews.h"
#include "node/heartbeat/private.h"
#include "node/signals.h"

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

/* Who we are, as the settings say now. */
static struct node_identity
identity(const struct heartbeat *h)
{
	const struct node *n = h->node;

	return (struct node_identity){.name = n->set->name,
	    .host = h->host,
	    .version = version_text(),
	    .strategy = n->set->strategy,
	    .labels = atomic_load(&n->labels),
	    .kinds = n->kinds,
	    .owners = owners_others(&n->owners),
	    .bounds = n->owners.bounds,
	    .users = n->owners.users,
	    .pid = getpid(),
	    .slots = crews_slots(n),
	    .heartbeat_us = n->set->heartbeat_us,
	    .dead_after_us = n->set->dead_after_us,
	    .from_band = n->set->min_priority + 1,
	    .room = n->room,
	    .workers = atomic_load(&n->workers),
	    .memory = n->set->memory_bytes,
	    .weight = atomic_load(&n->weight)};
}

/* Tells what a HUP has changed; if another session has the row locked, with the next beat. */
void
heartbeat_tell_change(struct heartbeat *h)
{
	struct node *n = h->node;
	struct node_identity now;
	struct err err = {0};
	bool told = false;

	if (!atomic_exchange(&n->untold, false))
		return;
	now = identity(h);
	if (h->store->node_change(
		h->db, atomic_load(&n->node_id), atomic_load(&n->incarnation), &now, &told, &err) != RC_OK ||
	    !told)
		atomic_store(&n->untold, true);
}

/* Tasks that were restored elsewhere must not fire there as well. */
static enum rc
heed_copy(struct heartbeat *h, struct err *err)
{
	bool copy = false;
	enum rc rc = h->store->is_copy(h->db, &copy, err);

	if (copy)
		log_warn("copy", "hint=\"%s\"",
		    "this database is a copy of another one: its tasks are paused until `pgrab adopt`");
	return rc;
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
	if (holder->exists && h->node->keeper != NULL)
		keeper_vouch_next(h->node->keeper, holder->id, incarnation);
	rc = h->store->run_key(h->db, incarnation, err);
	if (rc == RC_OK)
		rc = h->store->node_register(h->db, &who, incarnation, holder, &id, err);

	if (rc == RC_UNKNOWN) {
		enum rc looked = h->store->node_find(h->db, who.name, &now, err);

		if (looked == RC_OK && now.exists && now.incarnation == incarnation) {
			id = now.id;
			rc = RC_OK;
		}
	}
	if (rc != RC_OK)
		return rc;
	atomic_store(&h->node->node_id, id);
	heartbeat_renew(h, sent);
	rc = heartbeat_observe(h, err); /* the clock must be known before anything is claimed */
	if (rc == RC_OK)
		rc = heed_copy(h, err);
	if (rc != RC_OK)
		return rc;
	atomic_fetch_add(&h->node->bell_times, 1);
	atomic_store(&h->node->bell_written, true);
	atomic_store(&h->node->idle_us, clock_mono_us()); /* until now it could not know of any work */
	atomic_store(&h->node->incarnation, incarnation);
	if (h->node->keeper != NULL)
		keeper_vouch(h->node->keeper, id, incarnation);
	log_info("registered", "node=%s id=%" PRId64 " incarnation=%" PRId64, who.name, id, incarnation);
	return RC_OK;
}

/* Others judge a holder of our name likewise. */
static int64_t
patience(const struct heartbeat *h, const struct node_holder *holder)
{
	return lease_dead_us(holder->dead_after_us, holder->life, holder->now, h->store->pooled(h->db));
}

/* Watches the holder of our name until it is down, or its beat stood still for its dead_after, in one life of
 * the server; RC_BAD when it beats. */
static enum rc
wait_for_name(struct heartbeat *h, struct node_holder *holder, struct err *err)
{
	struct node_holder first;
	int64_t since = clock_mono_us();
	enum rc rc = h->store->node_find(h->db, h->node->set->name, &first, err);

	*holder = first;
	if (rc != RC_OK || !first.exists || first.down || first.incarnation == h->mine)
		return rc; /* free; or ours, from a try whose answer was lost */
	log_info("name_taken", "node=%s host=%s pid=%" PRId64 " wait_ms=%" PRId64 " hint=\"%s\"",
	    h->node->set->name, first.host, first.pid, patience(h, &first) / US_PER_MS,
	    "it did not sign off; waiting until it has sent no heartbeat for long enough");
	while (clock_mono_us() - since < patience(h, &first)) {
		if (!signals_wait(h->node->set->heartbeat_us))
			return RC_CLOSED;
		rc = h->store->node_find(h->db, h->node->set->name, holder, err);
		if (rc != RC_OK || !holder->exists || holder->down)
			return rc;
		if (holder->now != first.now)
			return err_set(err, RC_AGAIN, "the server was restarted");
		if (holder->incarnation != first.incarnation || holder->beat != first.beat)
			return err_set(err, RC_BAD,
			    "a live node has the name \"%s\" (host %s, process %" PRId64
			    "); stop it, or start this one with another --name",
			    h->node->set->name, holder->host, holder->pid);
	}
	h->store->disconnect(h->db); /* as recover does, before it declares a node dead */
	return RC_OK;
}

enum rc
heartbeat_name_first(struct heartbeat *h, struct err *err)
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
	} while (signals_wait(backoff_next_us(&h->backoff)));
	return RC_CLOSED;
}

/* Was the other holder of our name seen to stand still for its dead_after?  Time in which
 * nobody looked does not count. */
static bool
stands_still(struct heartbeat *h, const struct node_holder *holder)
{
	struct name_watch *w = &h->watch;
	int64_t now = clock_mono_us();
	bool same = w->incarnation == holder->incarnation && w->beat == holder->beat &&
		    w->life == holder->now && now - w->seen_us <= 2 * h->node->set->heartbeat_us + US_PER_S;

	if (!same)
		*w = (struct name_watch){.incarnation = holder->incarnation,
		    .beat = holder->beat,
		    .life = holder->now,
		    .since_us = now};
	w->seen_us = now;
	return same && now - w->since_us >= patience(h, holder);
}

enum rc
heartbeat_name_again(struct heartbeat *h, int64_t old, struct err *err)
{
	struct node_holder holder;
	enum rc rc = h->store->node_find(h->db, h->node->set->name, &holder, err);
	bool other = rc == RC_OK && holder.exists && !holder.down && holder.incarnation != old &&
		     holder.incarnation != h->mine;

	if (other && !stands_still(h, &holder))
		return err_set(err, RC_AGAIN,
		    "another node (host %s, process %" PRId64
		    ") took the name \"%s\"; this one goes on when that one is gone",
		    holder.host, holder.pid, h->node->set->name);
	if (other)
		h->store->disconnect(h->db);
	else
		h->watch.incarnation = 0;
	return rc == RC_OK ? take_name(h, &holder, err) : rc;
}
