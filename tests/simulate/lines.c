/* Tasks: due, in line, running, done. */
#include <stdlib.h>

#include "base/alloc.h"
#include "world.h"

static const char *const kinds[] = {"shell", "http"};

static uint32_t
line_of(const struct world *w, const struct task *t)
{
	const struct key *k = &w->key[t->key];

	return k->group * PGRAB_SHARDS + k->shard;
}

void
task_unref(struct task *t)
{
	if (--t->refs == 0)
		free(t);
}

bool
node_has_room(const struct node *n)
{
	return n->up && n->view != NULL && n->busy < n->slots;
}

static void
begin(struct world *w, uint32_t node, struct task *t)
{
	struct node *n = &w->node[node];
	const struct key *k = &w->key[t->key];
	uint32_t slot = 0;

	while (n->run[slot].task != NULL)
		slot++;
	n->busy++;
	n->run[slot] = (struct run){.task = t,
	    .took = n->sick ? about(w, 0.1, 0.3) : about(w, k->took / n->speed, 0.3),
	    .fails = n->sick};
	w->f.begun++;
	if (w->patient < w->plan.nodes && w->node[w->patient].sick) {
		w->f.all_while_sick++;
		w->f.sick_runs += n->sick;
	}
	if (t->measured)
		wait_note(&w->f.waits, w->now - t->due);
	event_add(w,
	    (struct event){
		.at = w->now + n->run[slot].took, .what = END, .who = node, .life = n->life, .slot = slot});
}

void
task_new(struct world *w, uint32_t key)
{
	struct task *t = xcalloc(1, sizeof *t);

	*t = (struct task){.key = key, .refs = 1, .due = w->now};
	t->measured = !w->site_out && w->now >= w->calm_at;
	w->f.due++;
	task_offer(w, t);
}

/* Every node whose picture makes it the owner may take it, whatever newer ones say. */
void
task_offer(struct world *w, struct task *t)
{
	uint32_t line = line_of(w, t), owners = 0, taker = w->plan.nodes;

	for (struct version *v = w->versions; v != NULL; v = v->next) {
		uint16_t o = v->owner[line / PGRAB_SHARDS][line % PGRAB_SHARDS];

		if (o == NOBODY || w->node[o].view != v)
			continue;
		owners++;
		if (taker == w->plan.nodes && node_has_room(&w->node[o]))
			taker = o;
	}
	w->f.contested += owners > 1;
	if (taker < w->plan.nodes) {
		begin(w, taker, t);
		return;
	}
	TAILQ_INSERT_TAIL(&w->line[line], t, beside);
	t->in_line = true;
	w->in_lines++;
	t->refs++;
	event_add(w, (struct event){.at = w->now + STEAL_AFTER + chance_to(w, 1), .what = STEAL, .task = t});
}

static void
leave_line(struct world *w, struct task *t)
{
	TAILQ_REMOVE(&w->line[line_of(w, t)], t, beside);
	t->in_line = false;
	w->in_lines--;
}

void
node_takes(struct world *w, uint32_t node)
{
	struct node *n = &w->node[node];

	for (size_t looked = 0; looked < n->n_own && node_has_room(n); looked++) {
		struct task *t = TAILQ_FIRST(&w->line[n->own[n->turn]]);

		n->turn = (n->turn + 1) % n->n_own;
		if (t == NULL)
			continue;
		leave_line(w, t);
		begin(w, node, t);
		looked = 0;
	}
}

static bool
may_take(struct world *w, uint32_t node, uint32_t group)
{
	struct node *n = &w->node[node];
	struct pgrab_cluster c = {.size = sizeof c, .shards = PGRAB_SHARDS};

	if (!node_has_room(n) || (group > 0 && n->site != group - 1) || n->view->rank[node] < 0)
		return false;
	c.n_nodes = n->view->n;
	c.nodes = n->view->node;
	c.self = (size_t)n->view->rank[node];
	return strategy_may_steal(w->strategy, &c);
}

/* When to try again: with a large backlog not all of it every second; that would be all that is done here. */
static double
try_again(const struct world *w, uint32_t group)
{
	if (w->site_out && group == 2)
		return w->back_at + TICK;
	return w->now + 1 + (double)w->in_lines / 1000;
}

/* It has been in line for long: anybody may have it.  If all are busy, later. */
void
task_steal(struct world *w, struct task *t)
{
	uint32_t from = chance_of(w, w->plan.nodes), group = w->key[t->key].group;

	for (uint32_t i = 0; t->in_line && i < w->plan.nodes; i++) {
		uint32_t node = (from + i) % w->plan.nodes;

		if (!may_take(w, node, group))
			continue;
		leave_line(w, t);
		w->f.stolen++;
		begin(w, node, t);
	}
	if (t->in_line)
		event_add(w, (struct event){.at = try_again(w, group), .what = STEAL, .task = t});
	else
		task_unref(t);
}

void
task_give_back(struct world *w, struct task *t, double after)
{
	event_add(w, (struct event){.at = w->now + after, .what = GIVE_BACK, .task = t});
}

void
node_ends(struct world *w, uint32_t node, uint32_t slot)
{
	struct node *n = &w->node[node];
	struct run r = n->run[slot];

	n->run[slot].task = NULL;
	n->busy--;
	n->busy_for += r.took;
	work_note(&n->work, kinds[w->key[r.task->key].kind], !r.fails, (int64_t)(r.took * 1e6));
	if (r.fails) {
		w->f.failed++;
		task_give_back(w, r.task, RETRY_AFTER);
	} else {
		w->f.done++;
		task_unref(r.task);
	}
	node_takes(w, node);
}

/* Not done: in line, running, or to be given back. */
uint64_t
tasks_waiting(const struct world *w)
{
	uint64_t n = 0;

	for (size_t i = 0; i < sizeof w->line / sizeof *w->line; i++) {
		const struct task *t;

		TAILQ_FOREACH (t, &w->line[i], beside)
			n++;
	}
	for (uint32_t i = 0; i < w->plan.nodes; i++)
		n += w->node[i].busy;
	for (size_t i = 0; i < w->n_events; i++)
		n += w->event[i].what == GIVE_BACK;
	return n;
}
