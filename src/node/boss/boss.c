/*
 * The boss thread.  It alone touches the tasks in hand: two heaps (not due yet; due and waiting for a
 * worker), one more of timeouts, and the count of free workers.  It sleeps until the next of them or the next
 * message, never blocks on a push, and has no connection.
 *
 * Room.  Loaders may only claim what the boss has room for:
 *   ready  of each crew (the worker threads; each pool of handler processes): its free slots, plus what was
 *          finished in the last 100 ms, less what waits already.  So a node that
 *          does thousands of short tasks a second has the next ones at hand, and one that does long
 *          ones takes nothing it would only sit on;
 *   timed  a fixed number of tasks that are due within lookahead.
 * A due task that has found no worker for steal_after is handed back, for a node that has one.
 *
 * Large runs, which take several slots, and heavy ones, which take memory that is counted, wait in heaps of
 * their own.  When the first of all by order is one that finds too few slots, nothing behind it begins: as
 * runs end, there will be enough.  One that only lacks memory holds up no others than those that need memory,
 * too.  See ADR 43.
 *
 * Busy.  A node that has had no free worker for a moment says so; nodes that are not busy then take what
 * is due in its place, at once (lanes.h), while it claims nothing ahead and hands back what it has a
 * moment before it is due.  A node whose runs are short is not busy, however many there are: its tasks are
 * better off where they are.
 *
 * Lease.  The heartbeat may be stuck in a call when the lease ends, so the boss watches for that end: nothing
 * that runs outlives it.
 */
#include "node/boss/boss.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/thread.h"
#include "node/boss/private.h"
#include "node/context.h"
#include "node/crews/crews.h"

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

	TAILQ_FOREACH (r, &b->in_hand, place.in_hand)
		held[n++] = (struct owned){.id = r->id, .version = r->version};
	qsort(held, n, sizeof *held, by_fence);
	for (size_t i = 0; i < c->n_rows; i++) {
		if (bsearch(&c->rows[i], held, n, sizeof *held, by_fence) == NULL)
			c->rows[left++] = c->rows[i];
	}
	free(held);
	WITH_LOCK(&b->lock);
	c->n_rows = left;
	c->answered = true;
	PTHREAD_OK(pthread_cond_broadcast(&b->changed));
}

static void
obey(struct boss *b, struct command *c)
{
	switch (c->what) {
	case CMD_DRAIN:
		b->draining = true;
		boss_release_unbegun(b);
		break;
	case CMD_UNDRAIN: b->draining = node_draining(b->node) || !health_may_claim(b->node); break;
	case CMD_HAND_BACK: boss_release_unbegun(b); break;
	case CMD_STOP_ONE: boss_stop_one(b, c); break;
	case CMD_STOP_RUNS:
		b->draining = true;
		b->stopping = c->why;
		boss_release_unbegun(b);
		boss_stop_all(b, c->why);
		break;
	case CMD_FENCE: boss_drop_all(b); break;
	case CMD_LEAKS: find_leaks(b, c); return; /* the asker owns it */
	default: assert(!"unknown command");
	}
	free(c);
	WITH_LOCK(&b->lock);
	b->obeyed++;
}

static void
settled(struct boss *b, struct run *r)
{
	struct crew *c = &b->crew[r->crew];

	if (!r->place.release && !r->started)
		boss_refused(b, r); /* its worker never saw the run */
	c->out -= r->need.slots;
	c->done_now += r->place.release ? 0 : r->need.slots;
	boss_forget(b, r);
}

static void
granted_back(struct boss *b, struct grant *g)
{
	WITH_LOCK(&b->lock);
	for (size_t i = 0; i < b->n_crews; i++) {
		b->taken.ready[i] -= g->taken.ready[i];
		b->taken.urgent[i] -= g->taken.urgent[i];
		b->taken.large[i] -= g->taken.large[i];
	}
	b->taken.timed -= g->taken.timed;
	b->taken.begins -= g->taken.begins;
	b->taken.memory -= g->taken.memory;
	free(g);
}

static void
change_slots(struct boss *b, struct slots *s)
{
	b->crew[s->crew].slots += s->more;
	b->crew[s->crew].idle += s->more;
	atomic_store(&b->node->slots[s->crew], b->crew[s->crew].slots);
	free(s);
}

static void
handle(struct boss *b, struct mail *m, int64_t now)
{
	struct note *note = (struct note *)m;

	switch (note->what) {
	case NOTE_CLAIMED: boss_take(b, note->run, now); break;
	case NOTE_SETTLED: settled(b, note->run); break;
	case NOTE_BEGUN: boss_watch(b, note->run); break;
	case NOTE_IDLE:
		boss_free(b, note->run);
		b->crew[note->run->crew].freed_now += note->run->need.slots;
		boss_group_over(b, note->run, now);
		boss_gave_way(b, note->run);
		if (note->run->place.deadline_slot != HEAP_NONE)
			heap_remove(b->timeouts, note->run->place.deadline_slot);
		break;
	case NOTE_LEFT: boss_left_group(b, note->run, now); break;
	case NOTE_SLOTS: change_slots(b, (struct slots *)note); break;
	case NOTE_GRANT: granted_back(b, (struct grant *)note); break;
	case NOTE_COMMAND: obey(b, (struct command *)note); break;
	default: assert(!"unknown note");
	}
}

static int64_t
next_event(const struct boss *b)
{
	int64_t until = CLOCK_NEVER, lease = lease_until(&b->node->lease);
	const struct run *r = heap_min(b->delayed);

	if (r != NULL)
		until = r->due_mono_us - LEAD_US;
	if (boss_lease_watched(b, lease)) {
		int64_t ends = clock_mono_us() + lease - clock_boot_us();

		until = ends < until ? ends : until;
	}
	r = heap_min(b->timeouts);
	if (r != NULL && r->place.deadline_us < until)
		until = r->place.deadline_us;
	if ((b->n_ready > 0 || (heap_count(b->delayed) > 0 && boss_helped(b))) && b->next_review_us < until)
		until = b->next_review_us;
	if (b->next_preempt_us < until)
		until = b->next_preempt_us;
	if (boss_next_busy(b) < until)
		until = boss_next_busy(b);
	return until;
}

/* Starter and finisher have no connection when they had nothing to do for long, and need 10 to 30 ms to make
 * one: what is planned would start late by that, or seem to. */
static void
say_planned(struct boss *b)
{
	struct node *n = b->node;
	bool planned = heap_count(b->delayed) > 0;

	if (atomic_exchange(&n->planned, planned) != planned && planned) {
		mailbox_poke(n->start_queue);
		mailbox_poke(n->finish_queue);
	}
}

bool
boss_round(struct boss *b)
{
	struct mail *m;
	enum rc rc = mailbox_pop_all_until(b->inbox, next_event(b), &m);
	int64_t now = clock_mono_us();

	ASSERT_MINE(&b->only);
	if (rc == RC_CLOSED)
		return false;
	while (rc == RC_OK && m != NULL) {
		struct mail *next = m->next; /* handling may free it */

		handle(b, m, now);
		m = next;
	}
	boss_watch_lease(b);
	boss_ripen(b, now);
	boss_time_out(b, now);
	boss_dispatch(b);
	boss_turn_window(b, now);
	boss_note_busy(b, now);
	boss_preempt(b, now);
	boss_review(b, now);
	boss_publish_room(b, now);
	say_planned(b);
	return true;
}

THREAD_OF_ROUNDS(boss_main, struct boss, boss_round)

struct boss *
boss_create(struct node *n)
{
	struct boss *b = xcalloc(1, sizeof *b);

	b->node = n;
	b->empty_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (b->empty_fd < 0)
		abort();
	b->inbox = mailbox_create();
	b->n_crews = crews_count(n);
	boss_heaps_create(b);
	b->crew[0].slots = b->crew[0].idle = atomic_load(&n->workers);
	atomic_store(&n->slots[0], b->crew[0].slots);
	b->next_preempt_us = CLOCK_NEVER;
	b->group_max = n->set->sql_group;
	b->room = (struct room){.ready = {b->crew[0].slots},
	    .timed = TIMED_MAX,
	    .begins = b->crew[0].slots,
	    .memory = boss_memory_left(b)};
	for (size_t i = 0; i < CREWS_MAX; i++) {
		b->room.before[i] = INT64_MAX;
		b->room.large[i] = 1;
	}
	b->total = b->room;
	lock_init(&b->lock);
	clock_cond_init(&b->changed);
	return b;
}

void
boss_destroy(struct boss **b)
{
	if (*b == NULL)
		return;
	close((*b)->empty_fd);
	mailbox_destroy(&(*b)->inbox);
	boss_heaps_destroy(*b);
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
	one_thread_leave(&b->only);
	/* Only after a stop that could not wait: the process ends, and others recover these tasks. */
	while ((r = TAILQ_FIRST(&b->in_hand)) != NULL) {
		TAILQ_REMOVE(&b->in_hand, r, place.in_hand);
		hold_keep(r->hold);
		run_free(r);
	}
}
