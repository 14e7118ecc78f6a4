/* The events of the world, one after the other. */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static const double speeds[] = {0.5, 1, 1, 1, 1, 2};
static const uint32_t workers[] = {4, 8, 8, 16};

static void
soon(struct world *w, double after, enum what what, uint32_t who)
{
	event_add(
	    w, (struct event){.at = w->now + after, .what = what, .who = who, .life = w->node[who].life});
}

static void
join(struct world *w, uint32_t i)
{
	struct node *n = &w->node[i];

	if (n->up)
		return;
	n->up = n->listed = w->members_changed = true;
	n->up_since = n->faded_at = w->now;
	n->fitness = 100;
	n->work = (struct work){0};
	n->n_said = 0;
	if (w->judges)
		soon(w, chance_to(w, JUDGE_EVERY), JUDGE, i);
}

/* In order: it says so, takes nothing more, and ends what it has. */
static void
leave(struct world *w, uint32_t i)
{
	struct node *n = &w->node[i];

	n->up_for += w->now - n->up_since;
	n->up = n->listed = false;
	w->members_changed = true;
	view_drop(w, i);
}

static void
die(struct world *w, uint32_t i)
{
	struct node *n = &w->node[i];

	leave(w, i);
	n->listed = true;
	n->life++;
	soon(w, SILENT, UNLIST, i);
	for (uint32_t slot = 0; slot < n->slots; slot++) {
		if (n->run[slot].task == NULL)
			continue;
		w->f.lost++;
		task_give_back(w, n->run[slot].task, DEAD_AFTER);
		n->run[slot].task = NULL;
	}
	n->busy = 0;
}

static void
churn(struct world *w)
{
	uint32_t i = chance_of(w, w->plan.nodes);

	soon(w, gap_of(w, 2 * 3600 / w->plan.churn), CHURN, 0);
	if (!w->node[i].up || w->site_out || w->node[i].sick)
		return;
	if (chance_of(w, 2) == 0)
		leave(w, i);
	else
		die(w, i);
	soon(w, 60 + gap_of(w, 600), JOIN, i);
}

static void
fall_ill(struct world *w)
{
	do
		w->patient = chance_of(w, w->plan.nodes);
	while (!w->node[w->patient].up || w->node[w->patient].site != 0);
	w->node[w->patient].sick = w->node[w->patient].was_sick = true;
	w->since = w->now;
	soon(w, w->plan.hours * 360, WELL, w->patient);
}

static void
mend(struct world *w, uint32_t i)
{
	w->node[i].sick = false;
	w->since = w->node[i].fitness < SICK_BELOW ? w->now : -1;
}

static void
site(struct world *w, bool out)
{
	w->site_out = out;
	for (uint32_t i = 0; i < w->plan.nodes; i++) {
		if (w->node[i].site != 1)
			continue;
		if (out && w->node[i].up)
			die(w, i);
		else if (!out)
			join(w, i);
	}
	if (out)
		soon(w, w->plan.hours * 75, SITE_BACK, 0);
	w->back_at = w->now + w->plan.hours * 75;
	w->calm_at = w->now + w->plan.hours * 150;
}

/* Each node reads the others once in n * 20 ms, and not more often than it beats. */
static void
tick(struct world *w)
{
	uint32_t every = (uint32_t)(w->plan.nodes * 0.02 / TICK) + 1;
	uint32_t turn = (uint32_t)(w->now / TICK + 0.5);

	views_change(w);
	for (uint32_t i = 0; i < w->plan.nodes; i++) {
		struct node *n = &w->node[i];

		if (!n->up || (n->view != NULL && (turn + i) % every != 0) || n->view == w->current)
			continue;
		view_take(w, i);
		node_takes(w, i);
	}
	soon(w, TICK, TICKS, 0);
}

static void
fire(struct world *w, uint32_t key)
{
	event_add(w, (struct event){.at = w->now + gap_of(w, w->key[key].gap), .what = FIRE, .who = key});
	task_new(w, key);
}

static void
judge(struct world *w, uint32_t i)
{
	view_judge(w, i);
	soon(w, JUDGE_EVERY, JUDGE, i);
}

static void
happen(struct world *w, const struct event *e)
{
	bool same_life = e->what != FIRE && e->life == w->node[e->who].life;

	switch (e->what) {
	case FIRE: fire(w, e->who); break;
	case END:
		if (same_life)
			node_ends(w, e->who, e->slot);
		break;
	case TICKS: tick(w); break;
	case STEAL: task_steal(w, e->task); break;
	case JUDGE:
		if (same_life && w->node[e->who].up)
			judge(w, e->who);
		break;
	case CHURN: churn(w); break;
	case UNLIST:
		w->node[e->who].listed = w->node[e->who].up;
		w->members_changed = true;
		break;
	case JOIN:
		if (!w->site_out || w->node[e->who].site == 0)
			join(w, e->who);
		break;
	case GIVE_BACK:
		e->task->due = w->now;
		task_offer(w, e->task);
		break;
	case SICK: fall_ill(w); break;
	case WELL: mend(w, e->who); break;
	case SITE_OUT:
	case SITE_BACK: site(w, e->what == SITE_OUT); break;
	}
}

static double
make_nodes(struct world *w)
{
	double all = 0;

	w->node = xcalloc(w->plan.nodes, sizeof *w->node);
	for (uint32_t i = 0; i < w->plan.nodes; i++) {
		struct node *n = &w->node[i];

		snprintf(n->name, sizeof n->name, "n%u", (unsigned)i);
		n->speed = speeds[chance_of(w, sizeof speeds / sizeof *speeds)];
		n->slots = workers[chance_of(w, sizeof workers / sizeof *workers)];
		n->site = (uint16_t)(i % 2);
		all += n->speed * n->slots;
		join(w, i);
	}
	return all;
}

/* Together they want `load` of what all nodes can do. */
static void
make_keys(struct world *w, double all)
{
	w->key = xcalloc(w->plan.keys, sizeof *w->key);
	for (uint32_t i = 0; i < w->plan.keys; i++) {
		struct key *k = &w->key[i];

		k->shard = (uint32_t)(pgrab_mix64(i) % PGRAB_SHARDS);
		k->group = chance_of(w, 10) < 6 ? 0 : (uint16_t)(1 + chance_of(w, 2));
		k->kind = chance_of(w, 3) == 0;
		k->took = about(w, k->kind == 0 ? 10 : 2, 0.7);
		k->gap = k->took * w->plan.keys / (w->plan.load * all) * about(w, 1, 0.4);
		event_add(w, (struct event){.at = gap_of(w, k->gap), .what = FIRE, .who = i});
	}
}

static double
share_of_time(const struct node *n)
{
	return n->busy_for / (n->up_for * n->slots);
}

/* How much the busiest node is used, per worker, against all together. */
static void
weigh(struct world *w)
{
	double busy = 0, all = 0;

	for (uint32_t i = 0; i < w->plan.nodes; i++) {
		struct node *n = &w->node[i];

		n->up_for += n->up ? w->now - n->up_since : 0;
		busy += n->busy_for;
		all += n->up_for * n->slots;
		if (!n->was_sick && n->up_for > w->plan.hours * 1800 && share_of_time(n) > w->f.most)
			w->f.most = share_of_time(n);
	}
	w->f.balance = w->f.most / (busy / all);
}

void
world_run(struct world *w, const struct plan *plan)
{
	double hour = 3600 * plan->hours;
	struct event e;
	struct err err = {0};

	*w = (struct world){.plan = *plan, .random = plan->seed, .patient = plan->nodes, .since = -1};
	w->f.sunk = w->f.risen = -1;
	for (size_t i = 0; i < sizeof w->line / sizeof *w->line; i++)
		TAILQ_INIT(&w->line[i]);
	if (strategy_open(plan->strategy, "", &w->strategy, &err) != RC_OK) {
		fprintf(stderr, "%s\n", err.text);
		exit(2);
	}
	w->judges = strategy_has_fitness(w->strategy);
	make_keys(w, make_nodes(w));
	soon(w, 0, TICKS, 0);
	soon(w, gap_of(w, 2 * 3600 / plan->churn), CHURN, 0);
	soon(w, hour / 4, SICK, 0);
	soon(w, hour / 2, SITE_OUT, 0);
	soon(w, hour * 5 / 8, SICK, 0);
	while (event_next(w, &e) && e.at < hour) {
		w->now = e.at;
		happen(w, &e);
	}
	w->now = hour;
	if (e.at >= hour)
		event_add(w, e);
	weigh(w);
}

void
world_end(struct world *w)
{
	views_end(w);
	strategy_close(&w->strategy);
	for (size_t i = 0; i < w->n_events; i++) {
		if (w->event[i].task != NULL)
			task_unref(w->event[i].task);
	}
	for (uint32_t i = 0; i < w->plan.nodes; i++) {
		for (uint32_t slot = 0; slot < SLOTS_MOST; slot++) {
			if (w->node[i].run[slot].task != NULL)
				task_unref(w->node[i].run[slot].task);
		}
	}
	for (size_t i = 0; i < sizeof w->line / sizeof *w->line; i++) {
		for (struct task *t = TAILQ_FIRST(&w->line[i]), *next; t != NULL; t = next) {
			next = TAILQ_NEXT(t, beside);
			task_unref(t);
		}
	}
	free(w->event);
	free(w->node);
	free(w->key);
}
