#include "node/runs/carrier.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/runs/live.h"
#include "node/runs/outcome.h"
#include "node/runs/refuse.h"

void
carrier_init(struct carrier *c, struct node *n)
{
	*c = (struct carrier){.node = n};
	c->notes_end = &c->notes;
}

static void
add_note(struct carrier *c, struct mail *m)
{
	m->next = NULL;
	*c->notes_end = m;
	c->notes_end = &m->next;
}

/* The run passes to the finisher with the next flush. */
static void
hand_on(struct carrier *c, struct run *r)
{
	r->place.unit = NULL;
	add_note(c, &r->idle.mail);
	c->ended = run_chain(r, c->ended);
	c->n_ended++;
}

bool
carrier_begin(struct carrier *c, struct run *r)
{
	struct node *n = c->node;

	if (!run_begins(n, r, true)) {
		hand_on(c, r);
		return false;
	}
	r->live = xcalloc(1, sizeof *r->live);
	live_begin(r->live, &n->lives, r);
	add_note(c, &r->begun.mail);
	return true;
}

enum pgrab_stop
carrier_stop(const struct carrier *c, const struct run *r)
{
	if (!node_may_act(c->node, r->incarnation, clock_boot_us()))
		return PGRAB_STOP_FENCED;
	return (enum pgrab_stop)atomic_load(&r->stop.why);
}

/* Ends what a run showed that was begun: takes its output, and counts it. */
static void
end_live(struct carrier *c, struct run *r)
{
	r->end.output = live_end(r->live, &r->end.output_truncated, &r->end.cost.output_bytes);
	free(r->live);
	r->live = NULL;
	atomic_fetch_sub(&c->node->running[r->crew], r->need.slots);
}

void
carrier_end(struct carrier *c, struct run *r, enum outcome outcome, const struct pgrab_result *result)
{
	bool executed = r->live != NULL, awaits = outcome == OUTCOME_AWAITS;

	r->end.at_us = clock_mono_us();
	if (executed)
		end_live(c, r);
	outcome_take(r, carrier_stop(c, r), result);
	if (awaits)
		outcome = OUTCOME_NONE;
	if (outcome != OUTCOME_NONE && r->end.outcome == OUTCOME_FAILED)
		r->end.outcome = outcome;
	if (outcome != OUTCOME_NONE && r->end.outcome != outcome)
		r->end.retry_us = RETRY_DEFAULT; /* it was told to stop: that is its outcome */
	if (awaits && r->end.outcome == OUTCOME_SUCCEEDED) {
		r->end.outcome = OUTCOME_AWAITS;
		free(r->end.output); /* that of the run is in the answer */
		r->end.output = NULL;
	} else if (executed) {
		achieved_count(c->node, r);
	}
	if (executed)
		achieved_note(c->node, r);
	hand_on(c, r);
}

/* First free, then finished: the boss must not forget a run whose note is still under way. */
void
carrier_flush(struct carrier *c)
{
	struct run *ended = c->ended;

	atomic_fetch_add(&c->node->ended, c->n_ended);
	boss_notes(c->node->boss, c->notes);
	c->notes = NULL;
	c->notes_end = &c->notes;
	c->ended = NULL;
	c->n_ended = 0;
	if (ended != NULL)
		mailbox_push_chain(c->node->finish_queue, &ended->note.mail);
}
