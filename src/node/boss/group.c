/*
 * The boss: which sql runs go to a worker together, to be one transaction (sql_group).
 *
 * Those that wait in a row, are started, and belong to one owner.  No more than what waits divided by the
 * workers that are free, unless that is done in a few milliseconds all the same.  A run that leaves its group
 * comes back, and is handed out by itself.
 *
 * A text that is cut short because it takes long has used a worker in vain, and how long it takes is not
 * known before.  So groups become smaller by half with each run that leaves one, and grow by a quarter with
 * each that ended in good time, or by one with a run by itself that did: where all are long, there are none.
 */
#include <string.h>

#include "base/clock.h"
#include "core/secret.h"
#include "exec/exec.h"
#include "node/boss/private.h"
#include "node/context.h"

/* One that ends sooner than this may come to its end while it waits for the others of its group. */
#define LEAST_US US_PER_S

static bool
may_group(const struct run *r, int64_t now)
{
	return r->started && r->crew == 0 && !r->alone && !r->once && need_is_small(&r->need) &&
	       r->due_mono_us <= now && r->task.spare_us < 0 && r->task.timeout_us >= LEAST_US &&
	       (r->task.stall_us == 0 || r->task.stall_us >= LEAST_US) && r->task.refused == NULL &&
	       strcmp(r->task.kind, exec_sql.kind) == 0 && !secret_wanted(r);
}

/* One worker does so much work at once, even if others are free.  When all are busy with runs by themselves,
 * each of these takes about 5 ms. */
#define QUICK_US (SQL_GROUP_US / 2)

static int64_t
size(const struct boss *b, const struct crew *c)
{
	int64_t idle = c->idle > 0 ? c->idle : 1, share = (c->waiting + idle) / idle;
	int64_t quick = b->text_us > 0 ? QUICK_US / b->text_us : 0, most = share > quick ? share : quick;

	return most < b->group_max ? most : b->group_max;
}

void
boss_group(struct boss *b, struct run *first, struct heap *from)
{
	int64_t now = clock_mono_us(), max;
	struct run *last = first, *r;

	first->place.grouped = 0;
	if (b->node->set->sql_group <= 1 || !may_group(first, now))
		return;
	boss_open_stop(b, first);
	max = first->stop.fd < 0 ? 1 : size(b, &b->crew[0]);
	for (first->place.grouped = 1; first->place.grouped < max; first->place.grouped++) {
		r = heap_min(from);
		if (r == NULL || !may_group(r, now) || strcmp(r->task.owner, first->task.owner) != 0)
			break;
		boss_open_stop(b, r);
		if (r->stop.fd < 0)
			break;
		boss_pop_ready(b, from);
		r->place.unit = NULL;
		last->place.unit = r;
		last = r;
	}
}

void
boss_group_over(struct boss *b, const struct run *first, int64_t now)
{
	int64_t took_us = now - first->begun_us;

	if (first->place.grouped == 0)
		return;
	took_us = took_us < LEAST_US ? took_us : LEAST_US;
	b->text_us += (took_us / first->place.grouped - b->text_us) / 4;
	b->crew[0].freed_now += first->place.grouped - 1; /* as many are carried out again as soon */
	if (took_us < SQL_GROUP_US)
		b->group_max += 1 + first->place.grouped / 4;
	if (b->group_max > b->node->set->sql_group)
		b->group_max = b->node->set->sql_group;
}

void
boss_left_group(struct boss *b, struct run *r, int64_t now)
{
	enum pgrab_stop why = (enum pgrab_stop)atomic_load(&r->stop.why);

	ASSERT_MINE(&b->only);
	if (r->alone && b->group_max > 1)
		b->group_max /= 2;
	if (r->place.deadline_slot != HEAP_NONE)
		heap_remove(b->timeouts, r->place.deadline_slot);
	if (r->incarnation == atomic_load(&b->node->incarnation) && why == PGRAB_STOP_CANCEL) {
		boss_end_unbegun(b, r, why);
		return;
	}
	b->crew[r->crew].out -= r->need.slots;
	if (r->incarnation != atomic_load(&b->node->incarnation)) {
		boss_forget(b, r); /* as what waits is, at a fence */
		return;
	}
	boss_queue_ready(b, r, now);
	if (b->draining)
		boss_release(b, r);
}
