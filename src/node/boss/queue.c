/* The boss: the tasks that wait for their time or for a worker, and which goes where. */
#include <assert.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "core/secret.h"
#include "node/boss/private.h"
#include "node/context.h"
#include "node/crews/crews.h"
#include "node/runs/outcome.h"

#define UNIT_MAX 256 /* instant runs handed to one worker at once */

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

	if (x->place.goes_first != y->place.goes_first)
		return x->place.goes_first;
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
	b->n_preemptible -= r->place.preemptible;
	if (--b->n_in_hand == 0)
		atomic_store(&b->node->idle_us, clock_mono_us());
	run_free(r);
}

static struct heap *
heap_of(const struct crew *c, const struct run *r)
{
	return need_is_small(&r->need) ? c->ready : r->need.memory > 0 ? c->heavy : c->large;
}

/* More: 1; fewer: -1. */
static void
count_ready(struct boss *b, const struct run *r, int more)
{
	b->n_ready += more;
	b->crew[r->crew].waiting += more * r->need.slots;
	b->memory_waiting += more * r->need.memory;
}

void
boss_queue_ready(struct boss *b, struct run *r, int64_t now)
{
	r->place.phase = RUN_READY;
	r->place.ready_since_us = now;
	heap_push(heap_of(&b->crew[r->crew], r), r);
	count_ready(b, r, 1);
}

/* Takes it out of the heap that it waits in. */
void
boss_unqueue(struct boss *b, struct run *r)
{
	if (r->place.phase == RUN_READY) {
		heap_remove(heap_of(&b->crew[r->crew], r), r->place.slot);
		count_ready(b, r, -1);
	} else {
		heap_remove(b->delayed, r->place.slot);
	}
}

void
boss_go_out(struct boss *b, struct run *r)
{
	r->place.phase = RUN_OUT;
	b->crew[r->crew].out += r->need.slots;
}

static void
occupy(struct boss *b, const struct run *r)
{
	b->crew[r->crew].idle -= r->need.slots;
	b->crew[r->crew].extra += r->need.slots - 1;
	b->memory_out += r->need.memory;
}

void
boss_free(struct boss *b, const struct run *r)
{
	b->crew[r->crew].idle += r->need.slots;
	b->crew[r->crew].extra -= r->need.slots - 1;
	b->memory_out -= r->need.memory;
}

bool
boss_may_return(const struct run *r)
{
	return r->place.phase != RUN_OUT && !(r->started && r->instant);
}

/* The finisher writes it, under its fence. */
void
boss_end_unbegun(struct boss *b, struct run *r, enum pgrab_stop why)
{
	struct pgrab_result none = {.size = sizeof none, .not_started = why == PGRAB_STOP_NONE};

	r->place.release = true;
	r->place.unit = NULL;
	r->begun_us = r->end.at_us = clock_mono_us();
	outcome_take(r, why, &none);
	r->end.retry_us = none.not_started ? RETRY_UNCOUNTED : RETRY_DEFAULT;
	atomic_fetch_add(&b->node->ended, 1);
	mailbox_push(b->node->finish_queue, &r->note.mail);
}

void
boss_unbegun(struct boss *b, struct run *r, enum pgrab_stop why)
{
	ASSERT_MINE(&b->only);
	boss_unqueue(b, r);
	boss_go_out(b, r);
	boss_end_unbegun(b, r, why);
}

/* The descriptor by which it is told to stop: its own, or that of its pool's thread, which looks at
 * all of them. */
void
boss_open_stop(struct boss *b, struct run *r)
{
	if (r->stop.fd >= 0) /* since it was in a group */
		return;
	r->stop.lent = r->crew > 0;
	r->stop.fd = r->stop.lent ? crews_wake_fd(b->node, r->crew) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

/* Started with its claim: its room was free, see room.c.  A pool that has lost its processes
 * since hands it back. */
static void
hand_to_pool(struct boss *b, struct run *r)
{
	boss_open_stop(b, r);
	boss_go_out(b, r);
	occupy(b, r);
	crews_take(b->node, r);
}

static bool
is_instant(const struct node *n, const char *kind)
{
	const struct pgrab_executor *x = exec_set_find(n->execs, kind);

	return x != NULL && (x->flags & PGRAB_EXECUTOR_INSTANT) != 0;
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
	r->crew = crews_of(b->node, r->task.kind);
	r->instant = r->crew == 0 && is_instant(b->node, r->task.kind);
	if (r->started && r->crew > 0) {
		hand_to_pool(b, r);
		return;
	}
	if (r->due_mono_us - LEAD_US <= now) {
		boss_queue_ready(b, r, now);
	} else {
		r->place.phase = RUN_DELAYED;
		heap_push(b->delayed, r);
	}
	if (b->draining && boss_may_return(r))
		boss_release(b, r);
}

void
boss_ripen(struct boss *b, int64_t now)
{
	struct run *r;

	while ((r = heap_min(b->delayed)) != NULL && r->due_mono_us - LEAD_US <= now) {
		heap_pop(b->delayed);
		boss_queue_ready(b, r, now);
	}
}

struct run *
boss_pop_ready(struct boss *b, struct heap *from)
{
	struct run *r = heap_pop(from);

	count_ready(b, r, -1);
	boss_go_out(b, r);
	return r;
}

/* Started instant runs go to a worker in units, so that the queue costs little per run. */
static struct run *
pop_unit(struct boss *b, struct heap *from)
{
	struct run *first = boss_pop_ready(b, from), *last = first;
	unsigned n = 1;

	first->place.unit = NULL;
	while (first->started && first->instant && n < UNIT_MAX) {
		struct run *r = heap_min(from);

		if (r == NULL || !r->started || !r->instant)
			break;
		boss_pop_ready(b, from);
		r->place.unit = NULL;
		last->place.unit = r;
		last = r;
		n++;
	}
	boss_group(b, first, from);
	return first;
}

/* Only a pool is handed runs ahead, and none that may be started only once: it must not wait behind
 * others. */
static bool
may_dispatch(const struct boss *b, const struct crew *c, const struct run *r)
{
	bool pool = c != &b->crew[0];

	return r != NULL &&
	       (c->idle > 0 || (pool && c->slots > 0 && !r->once && c->idle + boss_ahead(c) > 0));
}

int64_t
boss_ahead(const struct crew *c)
{
	return c->extra > 0 ? 0 : c->ahead;
}

/* Slots of which no loader may be starting something: what a claim starts goes to a pool at once. */
static int64_t
sure_idle(struct boss *b, const struct crew *c)
{
	if (c == &b->crew[0])
		return c->idle;
	WITH_LOCK(&b->lock);
	return c->idle - b->taken.ready[c - b->crew];
}

/* The first of these, if it is before all small ones. */
static struct run *
has_turn(const struct crew *c, struct heap *of)
{
	struct run *first = heap_min(of), *small = heap_min(c->ready);

	return first != NULL && (small == NULL || less_ready(first, small)) ? first : NULL;
}

static int64_t
memory_left(const struct boss *b)
{
	int64_t all = b->node->set->memory_bytes;

	return all == 0 ? MEMORY_ANY : all - b->memory_out;
}

static bool
lacks_slots(struct boss *b, const struct crew *c, const struct run *r)
{
	return r != NULL && r->need.slots > sure_idle(b, c) && r->need.slots <= c->slots;
}

/* The large run that has its turn and finds too few slots: nothing behind it takes what it waits for. */
const struct run *
boss_kept_for(struct boss *b, const struct crew *c)
{
	const struct run *large = has_turn(c, c->large), *heavy = has_turn(c, c->heavy);

	large = lacks_slots(b, c, large) ? large : NULL;
	heavy = lacks_slots(b, c, heavy) ? heavy : NULL;
	return heavy == NULL || (large != NULL && less_ready(large, heavy)) ? large : heavy;
}

/* Where the next run to start is; NULL: none may. */
static struct heap *
next_heap(struct boss *b, const struct crew *c)
{
	const struct run *large = has_turn(c, c->large), *heavy = has_turn(c, c->heavy),
			 *kept = boss_kept_for(b, c);
	struct need left = {.memory = memory_left(b), .slots = sure_idle(b, c)};

	large = large != NULL && need_fits(&large->need, &left) ? large : NULL;
	heavy = heavy != NULL && need_fits(&heavy->need, &left) ? heavy : NULL;
	if (heavy != NULL && (large == NULL || less_ready(heavy, large)))
		large = heavy;
	if (large != NULL && (kept == NULL || less_ready(large, kept)))
		return heap_of(c, large);
	return kept == NULL && may_dispatch(b, c, heap_min(c->ready)) ? c->ready : NULL;
}

/* The starter also fetches the secrets of what is started. */
static void
dispatch(struct boss *b, struct run *r)
{
	struct node *n = b->node;

	if (!(r->started && r->instant))
		boss_open_stop(b, r);
	if (r->stop.fd < 0 && !r->instant) { /* out of descriptors: hand it back */
		r->place.release = true;
		if (r->started)
			boss_end_unbegun(b, r, PGRAB_STOP_NONE);
		else
			mailbox_push(n->start_queue, &r->note.mail);
		return;
	}
	occupy(b, r);
	mailbox_push(r->started && !secret_wanted(r) ? n->run_queue : n->start_queue, &r->note.mail);
}

static void
dispatch_crew(struct boss *b, struct crew *c)
{
	struct heap *from;

	while ((from = next_heap(b, c)) != NULL)
		dispatch(b, pop_unit(b, from));
}

void
boss_dispatch(struct boss *b)
{
	for (size_t i = 0; i < b->n_crews; i++)
		dispatch_crew(b, &b->crew[i]);
}

void
boss_heaps_create(struct boss *b)
{
	b->delayed = heap_create(less_due, moved);
	for (size_t i = 0; i < b->n_crews; i++) {
		b->crew[i].ready = heap_create(less_ready, moved);
		b->crew[i].large = heap_create(less_ready, moved);
		b->crew[i].heavy = heap_create(less_ready, moved);
	}
	b->timeouts = heap_create(less_deadline, moved_deadline);
	TAILQ_INIT(&b->in_hand);
}

void
boss_heaps_destroy(struct boss *b)
{
	heap_destroy(&b->delayed);
	for (size_t i = 0; i < b->n_crews; i++) {
		heap_destroy(&b->crew[i].ready);
		heap_destroy(&b->crew[i].large);
		heap_destroy(&b->crew[i].heavy);
	}
	heap_destroy(&b->timeouts);
}
