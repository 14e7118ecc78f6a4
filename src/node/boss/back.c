/* The boss: what is handed back, because another node may be quicker, or this one is to drain. */
#include "base/clock.h"
#include "node/boss/private.h"
#include "node/context.h"

#define REVIEW_US      (250 * US_PER_MS)
#define HELP_REVIEW_US (50 * US_PER_MS)
#define HELP_AHEAD_US  (500 * US_PER_MS) /* another node has time to claim what is due in this */

void
boss_release(struct boss *b, struct run *r)
{
	ASSERT_MINE(&b->only);
	if (r->started) {
		boss_unbegun(b, r, PGRAB_STOP_NONE);
		return;
	}
	boss_unqueue(b, r);
	boss_go_out(b, r);
	r->place.release = true;
	mailbox_push(b->node->start_queue, &r->note.mail);
}

/* A large run that got no place under its limit was waited for in vain: nothing is kept free for another at
 * once. */
void
boss_refused(struct boss *b, const struct run *r)
{
	boss_free(b, r);
	if (r->need.slots > 1)
		atomic_store(&b->node->rests_until_us[r->crew], clock_mono_us() + REST_US);
}

static bool
is_first(const struct crew *c, const struct run *r)
{
	return heap_min(c->large) == r || heap_min(c->heavy) == r;
}

static int64_t
patience(const struct boss *b, const struct run *r)
{
	const struct crew *c = &b->crew[r->crew];
	int64_t late_us = r->place.ready_since_us - r->due_mono_us;

	if (r->place.goes_first) /* what gives way has kill_grace to end */
		return b->node->set->kill_grace_us + b->node->set->steal_after_us;
	if (!is_first(c, r))
		return b->node->set->steal_after_us;
	if (r->need.slots > c->slots)
		return -1; /* the crew has shrunk */
	return late_us > KEEP_US ? late_us : KEEP_US;
}

/* Is another node quicker?  For what has waited for steal_after and, when others help this busy node, for
 * what will soon be due. */
static bool
belongs_back(const struct boss *b, const struct run *r, int64_t now)
{
	if (!boss_may_return(r))
		return false;
	if (r->crew == 0 && !r->place.goes_first && boss_helped(b))
		return r->due_mono_us - HELP_AHEAD_US <= now;
	return r->place.phase == RUN_READY && now - r->place.ready_since_us > patience(b, r);
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
		if (!belongs_back(b, r, now))
			continue;
		if (r->place.phase == RUN_READY && is_first(&b->crew[r->crew], r))
			atomic_store(&b->node->rests_until_us[r->crew], now + REST_US);
		boss_release(b, r);
	}
}

void
boss_release_unbegun(struct boss *b)
{
	struct run *r, *next;

	for (r = TAILQ_FIRST(&b->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, place.in_hand);
		if (boss_may_return(r))
			boss_release(b, r);
	}
}
