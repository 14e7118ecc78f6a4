#include "node/runs/group.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "node/context.h"
#include "node/runs/hosting.h"
#include "node/runs/live.h"
#include "node/runs/outcome.h"
#include "node/runs/refuse.h"

struct grouped {
	struct run *run;
	struct hosting hosting;
	struct live live;
};

/* Owned by the worker's thread. */
struct group {
	struct node *node; /* borrowed */
	struct sql_group *sql;
	struct grouped *done; /* whose text is done */
	size_t n;
	struct run *ended, *left;
	int64_t n_ended;
};

static void
hand_on(struct group *g, struct run *r)
{
	r->place.unit = NULL;
	g->ended = run_chain(r, g->ended);
	g->n_ended++;
}

/* As if it had never begun. */
static void
leave(struct group *g, struct grouped *m)
{
	struct run *r = m->run;

	free(live_end(&m->live, &r->end.output_truncated, &r->end.cost.output_bytes));
	r->end = (struct run_end){0};
	r->alone = true;
	node_count(g->node, COUNT_STARTED, -1);
	atomic_fetch_sub(&g->node->running[r->crew], r->need.slots);
	g->left = run_chain(r, g->left);
}

static void
add(struct group *g, struct run *r)
{
	struct grouped *m = &g->done[g->n];

	m->run = r;
	if (!run_begins(g->node, r, true)) {
		hand_on(g, r);
		return;
	}
	boss_begun(g->node->boss, r);
	hosting_make(&m->hosting, g->node, r, &m->live);
	live_begin(&m->live, &g->node->lives, r);
	if (sql_group_add(g->sql, &m->hosting.view, &m->hosting.host)) {
		r->end.at_us = clock_mono_us();
		g->n++;
	} else {
		leave(g, m);
	}
}

/* succeeded: as the database has it.  Otherwise recovery takes it. */
static void
end(struct group *g, struct grouped *m, bool succeeded)
{
	struct pgrab_result res = {.size = sizeof res, .recorded = true, .succeeded = succeeded};
	struct run *r = m->run;

	r->end.output = live_end(&m->live, &r->end.output_truncated, &r->end.cost.output_bytes);
	outcome_take(r, m->hosting.host.stop(&m->hosting), &res);
	atomic_fetch_sub(&g->node->running[r->crew], r->need.slots);
	achieved_count(g->node, r);
	achieved_note(g->node, r);
	hand_on(g, r);
}

static void
end_all(struct group *g)
{
	enum rc rc = sql_group_end(&g->sql);

	for (size_t i = 0; i < g->n; i++) {
		if (rc == RC_AGAIN)
			leave(g, &g->done[i]);
		else
			end(g, &g->done[i], rc == RC_OK);
	}
}

void
group_work(struct node *n, void *state, struct run *first)
{
	struct group g = {.node = n};
	size_t count = 0;
	struct run *next;

	for (struct run *r = first; r != NULL; r = r->place.unit)
		count++;
	g.done = xcalloc(count, sizeof *g.done);
	g.sql = sql_group_begin(state, count);
	for (struct run *r = first; r != NULL; r = next) {
		next = r->place.unit;
		if (sql_group_takes_more(g.sql)) {
			add(&g, r);
		} else {
			r->alone = r == first; /* there can be no group, for now */
			g.left = run_chain(r, g.left);
		}
	}
	end_all(&g);
	free(g.done);
	atomic_fetch_add(&n->ended, g.n_ended);
	/* First free, then finished, as for any unit. */
	boss_idle_again(n->boss, first, g.left);
	if (g.ended != NULL)
		mailbox_push_chain(n->finish_queue, &g.ended->note.mail);
}
