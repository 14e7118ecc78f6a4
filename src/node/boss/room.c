/* The boss: how much the loaders may claim. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/thread.h"
#include "node/boss/private.h"
#include "node/context.h"

static void
say_empty(struct boss *b)
{
	ASSERT_LOCKED(&b->lock);
	PTHREAD_OK(pthread_cond_broadcast(&b->changed));
	if (b->posted > 0 && eventfd_write(b->empty_fd, 1) < 0 && errno != EAGAIN)
		abort();
}

static int64_t
greater(int64_t a, int64_t b, int64_t max)
{
	int64_t most = a > b ? a : b;

	return most < max ? most : max;
}

void
boss_turn_window(struct boss *b, int64_t now)
{
	bool over = now >= b->window_ends_us, next = now < b->window_ends_us + BURST_US;

	for (size_t i = 0; i < b->n_crews; i++) {
		struct crew *c = &b->crew[i];

		if (over) {
			c->done_before = next ? c->done_now : 0;
			c->freed_before = next ? c->freed_now : 0;
			c->done_now = c->freed_now = 0;
		}
		c->burst = greater(c->done_now, c->done_before, BURST_MAX);
		c->ahead = greater(c->freed_now, c->freed_before, AHEAD_MAX);
	}
	if (over)
		b->window_ends_us = now + BURST_US;
}

/* What is claimed now is before the run that the crew is kept free for, and so does not wait for that. */
static int64_t
waiting(struct boss *b, const struct crew *c)
{
	const struct run *kept = boss_kept_for(b, c);

	return c->waiting - (kept == NULL ? 0 : kept->need.slots);
}

/* A claim may start no more than the crew begins at once: what is idle of it, and what it frees in one
 * window, half of which is about the time that the next claim takes.  A crew without slots begins nothing. */
static int64_t
begins(struct boss *b, const struct crew *c)
{
	return c->slots <= 0 ? 0 : c->idle + boss_ahead(c) - waiting(b, c);
}

/* Only what its claim starts can be in a group (group.c), so with groups no claim is larger than that. */
static int64_t
worker_room(struct boss *b)
{
	const struct crew *c = &b->crew[0];
	int64_t taken = c->out + waiting(b, c);
	int64_t ends_locked = (int64_t)atomic_load(&b->ends_locked), room;

	/* Which crew these belong to is not known, and few nodes have pools.  Bounded all the same. */
	taken -= ends_locked < BURST_MAX ? ends_locked : BURST_MAX;
	room = c->slots + c->burst - taken;
	return b->node->set->sql_group <= 1 || begins(b, c) > room ? room : begins(b, c);
}

/* A pool's tasks are started with their claim.  Nor does it get more than can be recorded as quickly as it
 * ends. */
static int64_t
pool_room(struct boss *b, const struct crew *c)
{
	int64_t kept_up = c->slots + boss_ahead(c) + c->burst - c->out - waiting(b, c);

	return begins(b, c) < kept_up ? begins(b, c) : kept_up;
}

/* A few rows are not, when many runs end per second: a look and a claim of one row cost nearly as
 * much as those of a hundred. */
static int64_t
worth_a_claim(const struct crew *c, int64_t room, bool workers)
{
	return room > (workers ? c->burst / 2 : c->ahead / 2) ? room : 0;
}

int64_t
boss_memory_left(const struct boss *b)
{
	int64_t all = b->node->set->memory_bytes;

	return all == 0 ? MEMORY_ANY : all - b->memory_out - b->memory_waiting;
}

static bool
grew(const struct boss *b, size_t crew)
{
	bool more = b->total.ready[crew] > b->seen.ready[crew] || b->total.memory > b->seen.memory ||
		    b->total.before[crew] > b->seen.before[crew];

	if (b->room.ready[crew] > 0 && atomic_load(&b->node->wanting[crew]) > 0)
		return true;
	return atomic_load(&b->node->wanting_more[crew]) > 0 &&
	       ((b->room.ready[crew] > 0 && more) || b->room.large[crew] > b->seen.large[crew]);
}

static bool
large_waits(const struct crew *c)
{
	return heap_count(c->large) + heap_count(c->heavy) > 0;
}

/* A task that its claim starts begins within milliseconds. */
static bool
begins_soon(const struct crew *c)
{
	return !large_waits(c) && (c->idle > 0 || c->burst > 10 * c->slots);
}

static int64_t
lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* How much may be claimed now; tells a hungry loader when it grew. */
void
boss_publish_room(struct boss *b, int64_t now)
{
	bool ahead = !b->draining && !boss_helped(b);
	struct room room = {
	    .timed = ahead ? TIMED_MAX - (int64_t)heap_count(b->delayed) : 0, .memory = boss_memory_left(b)};
	bool wake = false;

	for (size_t i = 0; i < b->n_crews && !b->draining; i++) {
		const struct run *kept = boss_kept_for(b, &b->crew[i]);

		room.ready[i] = i == 0 ? worker_room(b) : pool_room(b, &b->crew[i]);
		room.large[i] = !large_waits(&b->crew[i]);
		room.before[i] = kept == NULL ? INT64_MAX : rank_us(kept->due_mono_us, kept->band);
	}
	boss_urgent_room(b, now, &room);
	PTHREAD_OK(pthread_mutex_lock(&b->lock));
	b->total = room;
	for (size_t i = 0; i < b->n_crews; i++) {
		b->room.urgent[i] = room.urgent[i] - b->taken.urgent[i];
		b->room.from_band[i] = room.from_band[i];
		b->room.ready[i] = worth_a_claim(&b->crew[i], room.ready[i] - b->taken.ready[i], i == 0);
		b->room.large[i] = room.large[i] - b->taken.large[i];
		wake = wake || grew(b, i);
		b->seen.large[i] = lesser(b->seen.large[i], room.large[i]);
		b->seen.ready[i] = lesser(b->seen.ready[i], room.ready[i]);
		b->seen.before[i] = lesser(b->seen.before[i], room.before[i]);
		b->room.before[i] = room.before[i];
	}
	b->seen.memory = lesser(b->seen.memory, room.memory);
	b->room.memory = room.memory - b->taken.memory;
	room.timed -= b->taken.timed;
	b->room.timed = room.timed > 0 ? room.timed : 0;
	b->room.begins = begins(b, &b->crew[0]) - b->taken.begins;
	if (b->node->set->sql_group > 1) /* see worker_room(): what loaders have taken differs */
		b->room.ready[0] = greater(0, lesser(b->room.ready[0], b->room.begins), INT64_MAX);
	b->in_hand_shown = b->n_in_hand;
	if (b->n_in_hand == 0)
		say_empty(b);
	PTHREAD_OK(pthread_mutex_unlock(&b->lock));
	atomic_store_explicit(&b->node->in_hand, (int64_t)b->n_in_hand, memory_order_relaxed);
	atomic_store_explicit(&b->node->memory_used, b->memory_out, memory_order_relaxed);
	atomic_store_explicit(&b->node->worker_soon, begins_soon(&b->crew[0]), memory_order_relaxed);
	if (wake && b->wake != NULL)
		b->wake(b->wake_ctx);
}
