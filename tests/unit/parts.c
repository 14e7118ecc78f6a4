/* See parts.h. */
#include "parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

void
parts_make(struct parts *p)
{
	struct node *n = &p->n;

	static char dsn[] = "host=/nonexistent", name[] = PART_NAME, strategy[] = "default",
		    empty_text[] = "", none[] = "{}";

	log_init(LOG_LEVEL__COUNT, LOG_TEXT, PART_NAME); /* says nothing */
	memset(p, 0, sizeof *p);
	p->set = (struct settings){.dsn = dsn,
	    .name = name,
	    .strategy = strategy,
	    .strategy_options = empty_text,
	    .weight = 1,
	    .workers = 4,
	    .loaders = 1,
	    .lookahead_us = 5 * US_PER_S,
	    .poll_us = US_PER_S,
	    .heartbeat_us = US_PER_S,
	    .fence_after_us = 5 * US_PER_S,
	    .dead_after_us = 10 * US_PER_S,
	    .kill_grace_us = 2 * US_PER_S,
	    .steal_after_us = 2 * US_PER_S,
	    .retention_us = 3600 * US_PER_S};
	p->kind = "test";
	n->set = &p->set;
	n->store = &store_fake;
	n->will_fd = -1;
	n->kinds = n->handled = n->at_once = n->room = none;
	atomic_store(&n->workers, p->set.workers);
	atomic_store(&n->durable, true);
	cluster_slot_init(&n->cluster);
	gate_init(&n->stop_now);
	holds_init(&n->holds);
	lives_init(&n->lives);
	achieved_init(&n->achieved);
	n->start_queue = mailbox_create();
	n->run_queue = mailbox_create();
	n->finish_queue = mailbox_create();
	n->back_queue = mailbox_create();
	n->boss = boss_create(n);
	n->recover = recover_create(n);
	p->starter = starter_create(n);
	p->finisher = finisher_create(n);
}

void
parts_register(struct parts *p, int64_t incarnation, int64_t lease_us)
{
	struct fake_node *row = fake_node(PART_NAME);
	struct members m;
	struct err err;

	row->incarnation = incarnation;
	atomic_store(&p->n.node_id, row->id);
	atomic_store(&p->n.incarnation, incarnation);
	lease_renew(&p->n.lease, clock_boot_us(), lease_us);
	members_init(&m, US_PER_S);
	if (store_fake.node_observe(NULL, &m, &err) != RC_OK)
		abort();
	cluster_slot_set(&p->n.cluster, cluster_build(&m, row->id, false));
	members_fini(&m);
}

void
parts_heartbeat(struct parts *p)
{
	struct err err;

	if (heartbeat_create(&p->n, &p->heartbeat, &err) != RC_OK)
		abort();
}

void
parts_loaders(struct parts *p)
{
	struct err err;

	if (loaders_create(&p->n, &p->loaders, &err) != RC_OK)
		abort();
	boss_on_room(p->n.boss, loaders_wake, p->loaders);
}

static void
empty(struct mailbox *m)
{
	struct mail *mail;

	while (mailbox_pop_until(m, 0, &mail) == RC_OK)
		run_free(run_of(mail));
}

/* Whatever is in hand is dropped, as when a node ends at once. */
void
parts_end(struct parts *p)
{
	struct node *n = &p->n;
	struct run *r, *next;

	if (p->loaders != NULL) {
		loader_end(loaders_at(p->loaders, 0));
		loaders_destroy(&p->loaders);
	}
	heartbeat_destroy(&p->heartbeat);
	recover_destroy(&n->recover);
	starter_destroy(&p->starter);
	finisher_destroy(&p->finisher);
	empty(n->back_queue);
	parts_boss(p);
	for (r = TAILQ_FIRST(&n->boss->in_hand); r != NULL; r = next) {
		next = TAILQ_NEXT(r, place.in_hand);
		run_free(r);
	}
	boss_destroy(&n->boss);
	mailbox_destroy(&n->start_queue);
	mailbox_destroy(&n->run_queue);
	mailbox_destroy(&n->finish_queue);
	mailbox_destroy(&n->back_queue);
	holds_fini(&n->holds);
	lives_fini(&n->lives);
	texts_fini(&n->overrides);
	achieved_fini(&n->achieved);
	gate_fini(&n->stop_now);
	exec_set_destroy(&n->execs);
	cluster_slot_fini(&n->cluster);
}

/* Not within its own turn: it may be the one that waits. */
#define TURN(part, call)                            \
	do {                                        \
		if (p->turn[part])                  \
			return;                     \
		p->turn[part] = true;               \
		(void)HAND_ROUND(0, call);          \
		hand.round = p->turn[part] = false; \
	} while (0)

void
parts_boss(struct parts *p)
{
	TURN(PART_BOSS, boss_round(p->n.boss));
}

void
parts_starter(struct parts *p)
{
	TURN(PART_STARTER, starter_round(p->starter));
}

void
parts_finisher(struct parts *p)
{
	TURN(PART_FINISHER, finisher_round(p->finisher));
}

void
parts_loader(struct parts *p)
{
	TURN(PART_LOADER, loader_round(loaders_at(p->loaders, 0)));
}

void
parts_recover(struct parts *p)
{
	TURN(PART_RECOVER, recover_round(p->n.recover));
}

struct fake_task *
parts_claimed(struct parts *p, int64_t due_mono_us, bool once)
{
	struct fake_task *t = fake_add(due_mono_us + fake.db_ahead_us);
	struct run *r;

	t->status = FAKE_CLAIMED;
	t->version++;
	t->incarnation = atomic_load(&p->n.incarnation);
	t->held_us = fake_now_us();
	t->once = once;
	r = run_create(t->id, t->version, t->incarnation);
	r->hold = hold_open(&p->n.holds, t->incarnation);
	r->due_us = t->due_us;
	r->due_mono_us = due_mono_us;
	r->band = 2;
	r->once = once;
	r->task.kind = xstrdup(p->kind);
	boss_give(p->n.boss, r, (struct room){0});
	return t;
}

static void
hand_in(struct parts *p, struct run *r)
{
	r->end.at_us = clock_mono_us();
	atomic_fetch_add(&p->n.ended, 1);
	boss_idle(p->n.boss, r);
	mailbox_push(p->n.finish_queue, &r->note.mail);
}

size_t
parts_begin_work(struct parts *p)
{
	struct mail *m;
	size_t begun = 0;

	while (mailbox_pop_until(p->n.run_queue, 0, &m) == RC_OK) {
		struct run *r = run_of(m);

		r->begun_us = clock_mono_us();
		atomic_store(&r->sign_us, r->begun_us);
		if (!node_may_act(&p->n, r->incarnation, clock_boot_us())) {
			r->end.written = WRITTEN_NEVER;
			hand_in(p, r);
			continue;
		}
		assert(p->n_at_work < AT_WORK_MAX);
		p->at_work[p->n_at_work++] = r;
		atomic_fetch_add(&p->n.running[r->crew], r->need.slots);
		boss_begun(p->n.boss, r);
		begun++;
	}
	return begun;
}

void
parts_end_work(struct parts *p, size_t i, enum outcome o)
{
	struct run *r = p->at_work[i];

	p->at_work[i] = p->at_work[--p->n_at_work];
	atomic_fetch_sub(&p->n.running[r->crew], r->need.slots);
	r->end.outcome = o;
	if (o == OUTCOME_SUCCEEDED && r->end.output == NULL)
		r->end.output = xstrdup("done");
	hand_in(p, r);
}
