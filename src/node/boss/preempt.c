/* The boss: preemptible runs that give way.  While a crew has no worker free, loaders may claim for it what
 * is PREEMPT_BANDS above one of its preemptible runs and has waited for preempt_after; for each of these one
 * run is stopped: of the lowest band, and of those the one that has run for the shortest time, because it
 * loses least.  Nothing gives way to large runs, whose crew is kept free for them, nor to what needs a place
 * under a limit, which it may not get.  Each walks over what is
 * in hand, which is bounded, and only while something preemptible is. */
#include <stdatomic.h>

#include "base/clock.h"
#include "node/boss/private.h"
#include "node/context.h"

#define PREEMPT_BANDS 2

static bool
is_on(const struct boss *b)
{
	return b->n_preemptible > 0 && b->node->set->preempt_after_us > 0 && !b->draining;
}

/* Is it in a worker's hands, and may it be stopped, now or later? */
static bool
may_give_way(const struct run *r)
{
	return r->task.spare_us >= 0 && r->place.deadline_slot != HEAP_NONE &&
	       atomic_load(&r->stop.at_us) == 0;
}

static int64_t
spared_until(const struct run *r)
{
	return r->begun_us + r->task.spare_us;
}

/* The one to stop for a run of this band; NULL: none. */
static struct run *
least_loss(const struct boss *b, size_t crew, int band, int64_t now)
{
	struct run *r, *least = NULL;

	TAILQ_FOREACH (r, &b->in_hand, place.in_hand) {
		if (r->crew != crew || !may_give_way(r) || spared_until(r) > now ||
		    r->band + PREEMPT_BANDS > band)
			continue;
		if (least == NULL || r->band < least->band ||
		    (r->band == least->band && r->begun_us > least->begun_us))
			least = r;
	}
	return least;
}

/* It gets the worker, whatever has waited for longer. */
static void
go_first(struct boss *b, struct run *waiting)
{
	struct heap *ready = b->crew[waiting->crew].ready;

	heap_remove(ready, waiting->place.slot);
	waiting->place.goes_first = true;
	heap_push(ready, waiting);
}

/* What a run gives way to may go back before it has ended: then its worker is promised to nobody. */
static bool
has_promised_all(const struct boss *b, size_t crew)
{
	int64_t promised = 0;
	struct run *r;

	TAILQ_FOREACH (r, &b->in_hand, place.in_hand)
		promised += r->crew == crew && r->place.phase == RUN_READY && r->place.goes_first;
	return promised >= b->crew[crew].giving_way;
}

static void
make_way(struct boss *b, struct run *waiting, int64_t now)
{
	struct run *r = least_loss(b, waiting->crew, waiting->band, now);

	if (!has_promised_all(b, waiting->crew)) {
		go_first(b, waiting);
		return;
	}
	if (r == NULL)
		return;
	boss_stop_run(b, r, PGRAB_STOP_PREEMPTED);
	r->place.gives_way = true;
	b->crew[r->crew].giving_way++;
	go_first(b, waiting);
}

void
boss_preempt(struct boss *b, int64_t now)
{
	struct run *r;

	ASSERT_MINE(&b->only);
	b->next_preempt_us = CLOCK_NEVER;
	if (!is_on(b))
		return;
	TAILQ_FOREACH (r, &b->in_hand, place.in_hand) {
		int64_t at = r->due_mono_us + b->node->set->preempt_after_us;

		if (r->place.phase != RUN_READY || r->place.goes_first || r->limited ||
		    !need_is_small(&r->need) || b->crew[r->crew].idle > 0)
			continue;
		if (at <= now)
			make_way(b, r, now);
		else if (at < b->next_preempt_us)
			b->next_preempt_us = at;
	}
}

void
boss_gave_way(struct boss *b, struct run *r)
{
	if (r->place.gives_way)
		b->crew[r->crew].giving_way--;
	r->place.gives_way = false;
}

/* Of the runs that may be stopped now those of the lowest band count: what is above these is claimed, a run
 * for each, less what waits already. */
void
boss_urgent_room(const struct boss *b, int64_t now, struct room *room)
{
	struct run *r;

	if (!is_on(b))
		return;
	TAILQ_FOREACH (r, &b->in_hand, place.in_hand) {
		int64_t *urgent = &room->urgent[r->crew];
		int *from = &room->from_band[r->crew];

		if (b->crew[r->crew].idle > 0 || !may_give_way(r) || spared_until(r) > now)
			continue;
		if (*urgent == 0 || r->band + PREEMPT_BANDS < *from) {
			*from = r->band + PREEMPT_BANDS;
			*urgent = 0;
		}
		*urgent += r->band + PREEMPT_BANDS == *from;
	}
	for (size_t i = 0; i < b->n_crews; i++) {
		const struct crew *c = &b->crew[i];
		int64_t waiting = (int64_t)heap_count(c->ready) - c->giving_way;

		room->urgent[i] -= waiting > 0 ? waiting : 0;
	}
}
