/*
 * The boss: the tasks that wait for their time or for a worker, and which goes where.
 */
#include <assert.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "node/boss/private.h"
#include "node/context.h"
#include "node/handlers/handlers.h"

#define UNIT_MAX       256 /* instant runs handed to one worker at once */
#define REVIEW_US      (250 * US_PER_MS)
#define HELP_REVIEW_US (50 * US_PER_MS)
#define HELP_AHEAD_US  (500 * US_PER_MS) /* another node has time to claim what is due in this */

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
	int64_t rank_x = rank_us(x->due_mono_us, x->band), rank_y = rank_us(y->due_mono_us, y->band);

	if (rank_x != rank_y)
		return rank_x < rank_y;
	return x->id < y->id;
}

static bool
less_deadline(const void *a, const void *b)
{
	const struct run *x = a, *y = b;

	return x->place.deadline_us != y->place.deadline_us ? x->place.deadline_us < y->place.deadline_us
							    : x->id < y->id;
}

static void
moved(void *item, size_t slot)
{
	((struct run *)item)->place.slot = slot;
}

static void
moved_deadline(void *item, size_t slot)
{
	((struct run *)item)->place.deadline_slot = slot;
}

void
boss_forget(struct boss *b, struct run *r)
{
	ASSERT_MINE(&b->only);
	assert(r->place.slot == HEAP_NONE);
	if (r->place.deadline_slot != HEAP_NONE)
		heap_remove(b->timeouts, r->place.deadline_slot);
	TAILQ_REMOVE(&b->in_hand, r, place.in_hand);
	b->n_in_hand--;
	run_free(r);
}

static void
queue_ready(struct boss *b, struct run *r, int64_t now)
{
	r->place.phase = RUN_READY;
	r->place.ready_since_us = now;
	heap_push(b->crew[r->crew].ready, r);
	b->n_ready++;
}

/* Takes it out of the heap that it waits in. */
void
boss_unqueue(struct boss *b, struct run *r)
{
	if (r->place.phase == RUN_READY) {
		heap_remove(b->crew[r->crew].ready, r->place.slot);
		b->n_ready--;
	} else {
		heap_remove(b->delayed, r->place.slot);
	}
}

static void
go_out(struct boss *b, struct run *r)
{
	r->place.phase = RUN_OUT;
	b->crew[r->crew].out++;
}

static void
release(struct boss *b, struct run *r)
{
	ASSERT_MINE(&b->only);
	boss_unqueue(b, r);
	go_out(b, r);
	r->place.release = true;
	mailbox_push(b->node->start_queue, &r->note.mail);
}

/* The descriptor by which it is told to stop: its own, or that of its pool's thread, which looks at
 * all of them. */
static void
open_stop(struct node *n, struct run *r)
{
	r->stop.lent = r->crew > 0;
	r->stop.fd = r->stop.lent ? handlers_wake_fd(n->handlers) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* Started with its claim: its room was free, see room.c.  A pool that has lost its processes
 * since hands it back. */
static void
hand_to_pool(struct boss *b, struct run *r)
{
	open_stop(b->node, r);
	go_out(b, r);
	b->crew[r->crew].idle--;
	handlers_take(b->node->handlers, r);
}

void
boss_take(struct boss *b, struct run *r, int64_t now)
{
	ASSERT_MINE(&b->only);
	if (r->incarnation != atomic_load(&b->node->incarnation)) {
		run_free(r); /* claimed before a fence: recovered like another node's */
		return;
	}
	TAILQ_INSERT_TAIL(&b->in_hand, r, place.in_hand);
	b->n_in_hand++;
	r->crew = handlers_crew(b->node->handlers, r->task.kind);
	if (r->started && r->crew > 0) {
		hand_to_pool(b, r);
		return;
	}
	if (r->due_mono_us - LEAD_US <= now) {
		queue_ready(b, r, now);
	} else {
		r->place.phase = RUN_DELAYED;
		heap_push(b->delayed, r);
	}
	if (b->draining && !r->started)
		release(b, r);
}

void
boss_ripen(struct boss *b, int64_t now)
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

	first->place.unit = NULL;
	while (first->started && n < UNIT_MAX) {
		struct run *r = heap_min(c->ready);

		if (r == NULL || !r->started)
			break;
		pop_ready(b, c);
		r->place.unit = NULL;
		last->place.unit = r;
		last = r;
		n++;
	}
	return first;
}

/* A run that may be started only once must not wait behind others. */
static bool
may_dispatch(const struct crew *c)
{
	const struct run *r = heap_min(c->ready);

	return r != NULL && (c->idle > 0 || (c->slots > 0 && !r->once && c->idle + c->ahead > 0));
}

static void
dispatch_crew(struct boss *b, struct crew *c)
{
	struct node *n = b->node;

	while (may_dispatch(c)) {
		struct run *r = pop_unit(b, c);

		if (r->started) {
			c->idle--;
			mailbox_push(n->run_queue, &r->note.mail);
			continue;
		}
		open_stop(n, r);
		r->place.release = r->stop.fd < 0; /* out of descriptors: hand it back */
		c->idle -= r->place.release ? 0 : 1;
		mailbox_push(n->start_queue, &r->note.mail);
	}
}

void
boss_dispatch(struct boss *b)
{
	for (size_t i = 0; i < b->n_crews; i++)
		dispatch_crew(b, &b->crew[i]);
}

/* Is another node quicker?  For what has waited for steal_after and, when others help this busy node, for
 * what will soon be due. */
static bool
belongs_back(const struct boss *b, const struct run *r, int64_t now)
{
	if (r->place.phase == RUN_OUT || r->started)
		return false; /* for the database started ones are running: they stay */
	if (r->crew == 0 && boss_helped(b))
		return r->due_mono_us - HELP_AHEAD_US <= now;
	return r->place.phase == RUN_READY && now - r->place.ready_since_us > b->node->set->steal_after_us;
}

void
boss_review(struct boss *b, int64_t now)
{
	struct run *r, *next;

	if (now < b->next_review_us)
		return;
	b->next_review_us = now + (boss_helped(b) ? HELP_REVIEW_US : REVIEW_US);
	if (b->n_ready == 0 && !boss_helped(b))
		return;
	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, place.in_hand);
		if (belongs_back(b, r, now))
			release(b, r);
	}
}

void
boss_release_unstarted(struct boss *b)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, place.in_hand);
		if (r->place.phase != RUN_OUT && !r->started)
			release(b, r);
	}
}

void
boss_heaps_create(struct boss *b)
{
	b->delayed = heap_create(less_due, moved);
	for (size_t i = 0; i < b->n_crews; i++)
		b->crew[i].ready = heap_create(less_ready, moved);
	b->timeouts = heap_create(less_deadline, moved_deadline);
	TAILQ_INIT(&b->in_hand);
}

void
boss_heaps_destroy(struct boss *b)
{
	heap_destroy(&b->delayed);
	for (size_t i = 0; i < b->n_crews; i++)
		heap_destroy(&b->crew[i].ready);
	heap_destroy(&b->timeouts);
}
