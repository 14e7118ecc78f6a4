/*
 * The boss thread.  It alone touches the tasks in hand: two heaps (not due yet; due and waiting for a
 * worker), one more of timeouts, and the count of free workers.  It sleeps until the next of them or the next
 * message, never blocks on a push, and has no connection.
 *
 * Room.  Loaders may only claim what the boss has room for:
 *   ready  of each crew (the worker threads; each pool of handler processes): its free slots, plus what was
 *          finished in the last 100 ms, less what waits already.  So a node that
 *          does thousands of short tasks a second has the next ones at hand, and one that does long ones takes
 *          nothing it would only sit on;
 *   timed  a fixed number of tasks that are due within lookahead.
 * A due task that found no worker for steal_after is handed back, for a node that has one.
 *
 * Lease.  The heartbeat may be stuck in a call when the lease ends, so its end is looked for here: nothing that
 * runs outlives it.
 */
#include "node/boss.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/thread.h"
#include "node/boss_inside.h"
#include "node/context.h"
#include "node/handlers.h"
#include "node/teller.h"

#define UNIT_MAX  256 /* instant runs handed to one worker at once */
#define REVIEW_US (250 * US_PER_MS)
#define AHEAD_MAX 512 /* runs handed to a quick pool beyond those it has slots for */

static bool
less_due(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->due_mono_us != y->due_mono_us ? x->due_mono_us < y->due_mono_us : x->id < y->id;
}

static bool
less_ready(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	if (run_rank_us(x) != run_rank_us(y))
		return run_rank_us(x) < run_rank_us(y);
	return x->id < y->id;
}

static bool
less_deadline(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->deadline_us != y->deadline_us ? x->deadline_us < y->deadline_us : x->id < y->id;
}

static void
moved(void *item, size_t slot)
{
	((struct run *)item)->slot = slot;
}

static void
moved_deadline(void *item, size_t slot)
{
	((struct run *)item)->deadline_slot = slot;
}

/* Tells a run to stop.  The reason first, so that whoever the descriptor wakes finds it.  The first reason
 * stands. */
static void
stop_run(struct boss *b, struct run *r, enum pgrab_stop why)
{
	uint64_t one = 1;
	int none = PGRAB_STOP_NONE;

	if (atomic_load(&r->stop_us) == 0)
		atomic_store(&r->stop_us, clock_mono_us());
	if (!atomic_compare_exchange_strong(&r->stop, &none, (int)why) && why != PGRAB_STOP_FENCED)
		return;
	atomic_store(&r->stop, (int)why);
	if (r->stop_fd >= 0 && write(r->stop_fd, &one, sizeof one) < 0)
		log_error("stop_failed", "task=%lld", (long long)r->id);
	teller_ring(b->node->teller);
}

static void
forget(struct boss *b, struct run *r)
{
	assert(r->slot == HEAP_NONE);
	if (r->deadline_slot != HEAP_NONE)
		heap_remove(b->timeouts, r->deadline_slot);
	TAILQ_REMOVE(&b->in_hand, r, in_hand);
	b->n_in_hand--;
	run_free(r);
}

static void
queue_ready(struct boss *b, struct run *r, int64_t now)
{
	r->phase = RUN_READY;
	r->ready_since_us = now;
	heap_push(b->crew[r->crew].ready, r);
	b->n_ready++;
}

/* Out of the heap that it waits in. */
static void
unqueue(struct boss *b, struct run *r)
{
	if (r->phase == RUN_READY) {
		heap_remove(b->crew[r->crew].ready, r->slot);
		b->n_ready--;
	} else {
		heap_remove(b->delayed, r->slot);
	}
}

static void
go_out(struct boss *b, struct run *r)
{
	r->phase = RUN_OUT;
	b->crew[r->crew].out++;
}

static void
release(struct boss *b, struct run *r)
{
	unqueue(b, r);
	go_out(b, r);
	r->release = true;
	mailbox_push(b->node->start_queue, &r->note.mail);
}

static void
take_claimed(struct boss *b, struct run *r, int64_t now)
{
	if (r->incarnation != atomic_load(&b->node->incarnation)) {
		run_free(r); /* claimed by what we were before a fence: recovered like a stranger's */
		return;
	}
	TAILQ_INSERT_TAIL(&b->in_hand, r, in_hand);
	b->n_in_hand++;
	r->crew = handlers_crew(b->node->handlers, r->kind);
	if (r->due_mono_us - LEAD_US <= now) {
		queue_ready(b, r, now);
	} else {
		r->phase = RUN_DELAYED;
		heap_push(b->delayed, r);
	}
	if (b->draining && !r->started)
		release(b, r);
}

static void
ripen(struct boss *b, int64_t now)
{
	struct run *r;

	while ((r = heap_min(b->delayed)) != NULL && r->due_mono_us - LEAD_US <= now) {
		heap_pop(b->delayed);
		queue_ready(b, r, now);
	}
}

static struct run *
pop_ready(struct boss *b, struct crew *c)
{
	struct run *r = heap_pop(c->ready);

	b->n_ready--;
	go_out(b, r);
	return r;
}

/* Started instant runs go to a worker in units, so that the queue costs little per run. */
static struct run *
pop_unit(struct boss *b, struct crew *c)
{
	struct run *first = pop_ready(b, c), *last = first;
	unsigned n = 1;

	first->unit = NULL;
	while (first->started && n < UNIT_MAX) {
		struct run *r = heap_min(c->ready);

		if (r == NULL || !r->started)
			break;
		pop_ready(b, c);
		r->unit = NULL;
		last->unit = r;
		last = r;
		n++;
	}
	return first;
}

/* The descriptor by which it is told to stop: its own, or that of its pool's thread, which looks at all of them. */
static void
open_stop(struct node *n, struct run *r)
{
	r->lent = r->crew > 0;
	r->stop_fd = r->lent ? handlers_wake_fd(n->handlers) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* A pool that ends thousands a second gets the next ones before it has a slot for them: their start takes longer than
 * the run.  Of those that may be started once only none waits behind others. */
static bool
may_dispatch(const struct crew *c, bool pool)
{
	const struct run *r = heap_min(c->ready);
	int64_t ahead = pool ? c->burst / 2 : 0;

	if (r == NULL)
		return false;
	if (ahead > AHEAD_MAX)
		ahead = AHEAD_MAX;
	return c->idle > 0 || (c->slots > 0 && !r->once && c->idle + ahead > 0);
}

static void
dispatch_crew(struct boss *b, struct crew *c)
{
	struct node *n = b->node;

	while (may_dispatch(c, c != &b->crew[0])) {
		struct run *r = pop_unit(b, c);

		if (r->started) {
			c->idle--;
			mailbox_push(n->run_queue, &r->note.mail);
			continue;
		}
		open_stop(n, r);
		r->release = r->stop_fd < 0; /* out of descriptors: hand it back */
		c->idle -= r->release ? 0 : 1;
		mailbox_push(n->start_queue, &r->note.mail);
	}
}

static void
dispatch(struct boss *b)
{
	for (size_t i = 0; i < b->n_crews; i++)
		dispatch_crew(b, &b->crew[i]);
}

/* What is due and found no worker for steal_after goes back.  Started ones are the database's idea of
 * running: they stay. */
static void
review(struct boss *b, int64_t now)
{
	struct run *r, *next;
	int64_t longest = b->node->set->steal_after_us;

	if (now < b->next_review_us)
		return;
	b->next_review_us = now + REVIEW_US;
	if (b->n_ready == 0)
		return;
	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, in_hand);
		if (r->phase == RUN_READY && !r->started && now - r->ready_since_us > longest)
			release(b, r);
	}
}

static void
release_unstarted(struct boss *b)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, in_hand);
		if (r->phase != RUN_OUT && !r->started)
			release(b, r);
	}
}

static void
stop_all(struct boss *b, enum pgrab_stop why)
{
	struct run *r;

	TAILQ_FOREACH (r, &b->in_hand, in_hand) {
		if (r->phase == RUN_OUT)
			stop_run(b, r, why);
	}
}

/* By a walk: it is rare, and what is in hand is bounded. */
static void
stop_one(struct boss *b, const struct command *c)
{
	struct run *r;

	TAILQ_FOREACH (r, &b->in_hand, in_hand) {
		if (r->id == c->id && r->version == c->version && r->phase == RUN_OUT && !r->release)
			stop_run(b, r, c->why);
	}
}

static void
fence(struct boss *b)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, in_hand);
		if (r->phase != RUN_OUT) {
			unqueue(b, r);
			forget(b, r);
		}
	}
	stop_all(b, PGRAB_STOP_FENCED);
}

static int
by_fence(const void *a, const void *b)
{
	const struct owned *x = a, *y = b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->version < y->version ? -1 : x->version > y->version;
}

static void
find_leaks(struct boss *b, struct command *c)
{
	struct owned *held = xcalloc(b->n_in_hand + 1, sizeof *held);
	size_t n = 0, left = 0;
	struct run *r;

	TAILQ_FOREACH (r, &b->in_hand, in_hand)
		held[n++] = (struct owned){.id = r->id, .version = r->version};
	qsort(held, n, sizeof *held, by_fence);
	for (size_t i = 0; i < c->n_rows; i++) {
		if (bsearch(&c->rows[i], held, n, sizeof *held, by_fence) == NULL)
			c->rows[left++] = c->rows[i];
	}
	free(held);
	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	c->n_rows = left;
	c->answered = true;
	PTHREAD_OK(pthread_cond_broadcast(&b->changed));
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
}

static void
obey(struct boss *b, struct command *c)
{
	switch (c->what) {
	case CMD_DRAIN:
		b->draining = true;
		release_unstarted(b);
		break;
	case CMD_UNDRAIN: b->draining = node_draining(b->node) || !health_may_claim(b->node); break;
	case CMD_STOP_ONE: stop_one(b, c); break;
	case CMD_STOP_RUNS:
		b->draining = true;
		b->stopping = c->why;
		release_unstarted(b);
		stop_all(b, c->why);
		break;
	case CMD_FENCE: fence(b); break;
	case CMD_LEAKS: find_leaks(b, c); return; /* the asker owns it */
	default: assert(!"unknown command");
	}
	free(c);
	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	b->obeyed++;
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
}

static void
settled(struct boss *b, struct run *r)
{
	struct crew *c = &b->crew[r->crew];

	if (!r->release && !r->started)
		c->idle++; /* the starter was refused: its worker never saw the run */
	c->out--;
	c->done_now++;
	forget(b, r);
}

/* When to look whether its time is out: at the end of its timeout, or when it would have shown no sign of life for
 * too long. */
static int64_t
next_look(const struct run *r)
{
	int64_t end = r->begun_us + r->timeout_us, stall = atomic_load(&r->sign_us) + r->stall_us;

	return r->stall_us > 0 && stall < end ? stall : end;
}

static void
begun(struct boss *b, struct run *r)
{
	r->deadline_us = next_look(r);
	heap_push(b->timeouts, r);
	if (b->stopping != PGRAB_STOP_NONE)
		stop_run(b, r, b->stopping);
}

static void
granted_back(struct boss *b, struct grant *g)
{
	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	for (size_t i = 0; i < b->n_crews; i++)
		b->taken.ready[i] -= g->taken.ready[i];
	b->taken.timed -= g->taken.timed;
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
	free(g);
}

static void
change_slots(struct boss *b, struct slots *s)
{
	b->crew[s->crew].slots += s->more;
	b->crew[s->crew].idle += s->more;
	free(s);
}

static void
handle(struct boss *b, struct mail *m, int64_t now)
{
	struct note *note = (struct note *)m;

	switch (note->what) {
	case NOTE_CLAIMED: take_claimed(b, note->run, now); break;
	case NOTE_SETTLED: settled(b, note->run); break;
	case NOTE_BEGUN: begun(b, note->run); break;
	case NOTE_IDLE:
		b->crew[note->run->crew].idle++;
		if (note->run->deadline_slot != HEAP_NONE)
			heap_remove(b->timeouts, note->run->deadline_slot);
		break;
	case NOTE_SLOTS: change_slots(b, (struct slots *)note); break;
	case NOTE_GRANT: granted_back(b, (struct grant *)note); break;
	case NOTE_COMMAND: obey(b, (struct command *)note); break;
	default: assert(!"unknown note");
	}
}

static void
time_out(struct boss *b, int64_t now)
{
	struct run *r;

	while ((r = heap_min(b->timeouts)) != NULL && r->deadline_us <= now) {
		heap_pop(b->timeouts);
		r->deadline_us = next_look(r);
		if (r->deadline_us > now) { /* it has shown a sign of life */
			heap_push(b->timeouts, r);
			continue;
		}
		if (now < r->begun_us + r->timeout_us)
			atomic_store(&r->stalled, true);
		stop_run(b, r, PGRAB_STOP_TIMEOUT);
	}
}

static bool
lease_watched(const struct boss *b, int64_t lease)
{
	return b->n_in_hand > 0 && lease != 0 && lease != b->lease_over_us;
}

/* Stops what runs when the lease is over.  All else of a fence is the heartbeat's, when it comes to it. */
static void
watch_lease(struct boss *b)
{
	int64_t lease = lease_until(&b->node->lease);

	if (!lease_watched(b, lease) || clock_boot_us() < lease)
		return;
	b->lease_over_us = lease;
	log_warn("lease_over", "in_hand=%zu hint=\"%s\"", b->n_in_hand,
	    "no heartbeat got through for fence_after; what runs is stopped");
	stop_all(b, PGRAB_STOP_FENCED);
}

static void
say_empty(struct boss *b) /* lock held */
{
	uint64_t one = 1;

	PTHREAD_OK(pthread_cond_broadcast(&b->changed));
	if (b->posted > 0 && write(b->empty_fd, &one, sizeof one) < 0 && errno != EAGAIN)
		abort();
}

static void
turn_window(struct boss *b, int64_t now)
{
	bool over = now >= b->window_ends_us, next = now < b->window_ends_us + BURST_US;

	for (size_t i = 0; i < b->n_crews; i++) {
		struct crew *c = &b->crew[i];

		if (over) {
			c->done_before = next ? c->done_now : 0;
			c->done_now = 0;
		}
		c->burst = c->done_now > c->done_before ? c->done_now : c->done_before;
		if (c->burst > BURST_MAX)
			c->burst = BURST_MAX;
	}
	if (over)
		b->window_ends_us = now + BURST_US;
}

/* A crew without slots, which is a pool without processes, takes nothing. */
static int64_t
crew_room(const struct boss *b, size_t i)
{
	const struct crew *c = &b->crew[i];
	int64_t waiting = c->out + (int64_t)heap_count(c->ready);
	int64_t ends_locked = (int64_t)atomic_load(&b->ends_locked);

	/* Whose these are is not known, and few have pools.  Bounded all the same. */
	if (i == 0)
		waiting -= ends_locked < BURST_MAX ? ends_locked : BURST_MAX;
	return c->slots > 0 ? c->slots + c->burst - waiting : 0;
}

/* How much may be claimed now; tells a hungry loader when it grew. */
static void
publish_room(struct boss *b, int64_t now)
{
	struct room room = {.timed = b->draining ? 0 : TIMED_MAX - (int64_t)heap_count(b->delayed)};
	bool grew = false, opened = false;

	turn_window(b, now);
	for (size_t i = 0; i < b->n_crews && !b->draining; i++)
		room.ready[i] = crew_room(b, i);
	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	for (size_t i = 0; i < b->n_crews; i++) {
		room.ready[i] -= b->taken.ready[i];
		/* Not for a few when many end per second: a claim of one row costs nearly as much as one of a
		 * hundred. */
		grew = grew || room.ready[i] > b->crew[i].burst / 2;
		opened = opened || (i > 0 && room.ready[i] > b->crew[i].burst / 2);
		b->room.ready[i] = room.ready[i] > 0 ? room.ready[i] : 0;
	}
	room.timed -= b->taken.timed;
	b->room.timed = room.timed > 0 ? room.timed : 0;
	b->in_hand_shown = b->n_in_hand;
	if (b->n_in_hand == 0)
		say_empty(b);
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
	atomic_store_explicit(&b->node->in_hand, (int64_t)b->n_in_hand, memory_order_relaxed);
	atomic_store_explicit(&b->node->brisk,
	    b->crew[0].idle > 0 || b->crew[0].burst > 10 * b->node->set->workers, memory_order_relaxed);
	if (grew && b->wake != NULL &&
	    (atomic_load(&b->node->hungry) > 0 || (opened && atomic_load(&b->node->crowded) > 0)))
		b->wake(b->wake_ctx);
}

static int64_t
next_event(const struct boss *b)
{
	int64_t until = CLOCK_NEVER, lease = lease_until(&b->node->lease);
	const struct run *r = heap_min(b->delayed);

	if (r != NULL)
		until = r->due_mono_us - LEAD_US;
	if (lease_watched(b, lease)) {
		int64_t ends = clock_mono_us() + lease - clock_boot_us();

		until = ends < until ? ends : until;
	}
	r = heap_min(b->timeouts);
	if (r != NULL && r->deadline_us < until)
		until = r->deadline_us;
	if (b->n_ready > 0 && b->next_review_us < until)
		until = b->next_review_us;
	return until;
}

static void *
boss_main(void *arg)
{
	struct boss *b = arg;
	struct mail *m;

	for (;;) {
		enum rc rc = mailbox_pop_all_until(b->inbox, next_event(b), &m);
		int64_t now = clock_mono_us();

		if (rc == RC_CLOSED)
			return NULL;
		while (rc == RC_OK && m != NULL) {
			struct mail *next = m->next; /* handling may free it */

			handle(b, m, now);
			m = next;
		}
		watch_lease(b);
		ripen(b, now);
		time_out(b, now);
		dispatch(b);
		review(b, now);
		publish_room(b, now);
	}
}

struct boss *
boss_create(struct node *n)
{
	struct boss *b = xcalloc(1, sizeof *b);
	pthread_condattr_t attr;

	b->node = n;
	b->empty_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->empty_fd < 0)
		abort();
	b->inbox = mailbox_create();
	b->delayed = heap_create(less_due, moved);
	b->n_crews = 1 + handlers_count(n->handlers);
	for (size_t i = 0; i < b->n_crews; i++)
		b->crew[i].ready = heap_create(less_ready, moved);
	b->timeouts = heap_create(less_deadline, moved_deadline);
	TAILQ_INIT(&b->in_hand);
	b->crew[0].slots = b->crew[0].idle = n->set->workers;
	b->room = (struct room){.ready = {n->set->workers}, .timed = TIMED_MAX};
	PTHREAD_OK(pthread_mutex_init(&b->lock, NULL));
	PTHREAD_OK(pthread_condattr_init(&attr));
	PTHREAD_OK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	PTHREAD_OK(pthread_cond_init(&b->changed, &attr));
	PTHREAD_OK(pthread_condattr_destroy(&attr));
	return b;
}

void
boss_destroy(struct boss **b)
{
	if (*b == NULL)
		return;
	close((*b)->empty_fd);
	mailbox_destroy(&(*b)->inbox);
	heap_destroy(&(*b)->delayed);
	for (size_t i = 0; i < (*b)->n_crews; i++)
		heap_destroy(&(*b)->crew[i].ready);
	heap_destroy(&(*b)->timeouts);
	PTHREAD_OK(pthread_cond_destroy(&(*b)->changed));
	PTHREAD_OK(pthread_mutex_destroy(&(*b)->lock));
	free(*b);
	*b = NULL;
}

void
boss_start(struct boss *b)
{
	thread_start(&b->thread, "boss", boss_main, b);
}

void
boss_stop(struct boss *b)
{
	struct run *r;

	mailbox_close(b->inbox);
	thread_join(b->thread);
	/* Only after a stop that could not wait: the process ends, and others recover these tasks. */
	while ((r = TAILQ_FIRST(&b->in_hand)) != NULL) {
		TAILQ_REMOVE(&b->in_hand, r, in_hand);
		hold_keep(r->hold);
		run_free(r);
	}
}
