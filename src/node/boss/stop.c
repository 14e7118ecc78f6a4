/* The boss: runs that are to stop, because a person wants it, their time is out or the lease is over. */
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/boss/private.h"
#include "node/context.h"
#include "node/runs/teller.h"

/* Tells a run to stop.  The reason is set first, so that the thread that the descriptor wakes finds it.  The
 * first reason stands. */
void
boss_stop_run(struct boss *b, struct run *r, enum pgrab_stop why)
{
	int none = PGRAB_STOP_NONE;

	ASSERT_MINE(&b->only);
	if (atomic_load(&r->stop.at_us) == 0)
		atomic_store(&r->stop.at_us, clock_mono_us());
	if (!atomic_compare_exchange_strong(&r->stop.why, &none, (int)why) && why != PGRAB_STOP_FENCED)
		return;
	atomic_store(&r->stop.why, (int)why);
	if (r->stop.fd >= 0 && eventfd_write(r->stop.fd, 1) < 0)
		log_error("stop_failed", "task=%lld", (long long)r->id);
	teller_ring(b->node->teller);
}

void
boss_stop_all(struct boss *b, enum pgrab_stop why)
{
	struct run *r;

	TAILQ_FOREACH (r, &b->in_hand, place.in_hand) {
		if (r->place.phase == RUN_OUT)
			boss_stop_run(b, r, why);
	}
}

/* By walking over all: it is rare, and what is in hand is bounded.  One that is started and waits for its
 * worker ends here. */
void
boss_stop_one(struct boss *b, const struct command *c)
{
	struct run *r;

	TAILQ_FOREACH (r, &b->in_hand, place.in_hand) {
		if (r->id != c->id || r->version != c->version || r->place.release)
			continue;
		if (r->place.phase == RUN_OUT)
			boss_stop_run(b, r, c->why);
		else if (boss_may_return(r) && r->started)
			boss_unbegun(b, r, c->why);
	}
}

void
boss_drop_all(struct boss *b)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, place.in_hand);
		if (r->place.phase != RUN_OUT) {
			boss_unqueue(b, r);
			boss_forget(b, r);
		}
	}
	boss_stop_all(b, PGRAB_STOP_FENCED);
}

/* When to check whether its time is out: at the end of its timeout, or when it would have shown no
 * sign of life for too long. */
static int64_t
next_look(const struct run *r)
{
	int64_t end = r->begun_us + r->task.timeout_us, stall = atomic_load(&r->sign_us) + r->task.stall_us;

	return r->task.stall_us > 0 && stall < end ? stall : end;
}

void
boss_watch(struct boss *b, struct run *r)
{
	r->place.deadline_us = next_look(r);
	heap_push(b->timeouts, r);
	r->place.preemptible = r->task.spare_us >= 0;
	b->n_preemptible += r->place.preemptible;
	if (b->stopping != PGRAB_STOP_NONE)
		boss_stop_run(b, r, b->stopping);
}

void
boss_time_out(struct boss *b, int64_t now)
{
	struct run *r;

	while ((r = heap_min(b->timeouts)) != NULL && r->place.deadline_us <= now) {
		heap_pop(b->timeouts);
		r->place.deadline_us = next_look(r);
		if (r->place.deadline_us > now) { /* it has shown a sign of life */
			heap_push(b->timeouts, r);
			continue;
		}
		if (now < r->begun_us + r->task.timeout_us)
			atomic_store(&r->stop.stalled, true);
		boss_stop_run(b, r, PGRAB_STOP_TIMEOUT);
	}
}

bool
boss_lease_watched(const struct boss *b, int64_t lease)
{
	return b->n_in_hand > 0 && lease != 0 && lease != b->lease_over_us;
}

/* Stops what runs when the lease is over.  The rest of a fence is done by the
 * heartbeat, when it gets to it. */
void
boss_watch_lease(struct boss *b)
{
	int64_t lease = lease_until(&b->node->lease);

	if (!boss_lease_watched(b, lease) || clock_boot_us() < lease)
		return;
	b->lease_over_us = lease;
	log_warn("lease_over", "in_hand=%zu hint=\"%s\"", b->n_in_hand,
	    "no heartbeat got through for fence_after; running tasks are stopped");
	boss_stop_all(b, PGRAB_STOP_FENCED);
}
