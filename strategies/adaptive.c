/*
 * adaptive: shares that follow what the nodes achieve.
 *
 * A node's share is weight * slots * fitness.  Fitness is what it says of itself with its heartbeats, in per
 * cent: how well its runs go, compared with runs of the same kinds on other nodes, and what its machine has
 * left:
 *
 *     success    successes / those that the others' rate promised; what fails everywhere costs nobody
 *     speed      how long the runs of a kind take on all nodes / how long they do here
 *     cpu        less when it has none to spare and others have
 *     memory     less when it has hardly any left
 *
 * The product is rounded to steps of a fourth root of 2, and the last word stands until it is off by three
 * tenths: every change moves shards, and chance alone must not.  Evidence is weighed against PRIOR runs of an
 * ordinary node, so that a few runs say little.
 *
 * A node that succeeds in less than half of what others would sinks to TRICKLE at once, and no longer takes
 * what others leave lying: it fails fast, so it would always be free for it.  What it still gets shows when
 * it is well again.  It rises when it succeeds in two thirds.  Every node keeps one shard, so that it is
 * heard of.  While it is sick it counts down from TRICKLE to 1 and begins again, each time with other shards:
 * so a task that failed there goes elsewhere, and no task has to fail again and again.
 */
#include "shares.h"

#include <stdio.h>
#include <string.h>

#define ORDINARY    100
#define TRICKLE     6 /* any of 1..TRICKLE means so many per cent */
#define SICK        (1.0 / 2)
#define WELL        (2.0 / 3)
#define PRIOR       4.0  /* runs */
#define PRIOR_TIMED 16.0 /* likewise, for their length */
#define LITTLE      4.0  /* runs of others; with fewer there is nothing to compare with */
#define HOLD        1.3  /* so far off may the last word be */
#define SPARE       10   /* per cent of memory, or of CPU: no more is needed */

/* 2^(n/4); the lowest is far above TRICKLE, which so says who is sick. */
static const int64_t steps[] = {
    25, 30, 35, 42, 50, 59, 71, 84, ORDINARY, 119, 141, 168, 200, 238, 283, 336, 400};
#define N_STEPS (sizeof steps / sizeof *steps)

struct parts {
	double success, speed, cpu, memory; /* 1: as an ordinary node */
};

static bool
is_sick(const struct pgrab_node *n)
{
	return n->fitness <= TRICKLE;
}

static double
at_most(double x, double most)
{
	return x < most ? x : most;
}

static double
within(double x, double least, double most)
{
	return x < least ? least : at_most(x, most);
}

/* The sum over the nodes of what they say of the kind. */
static struct pgrab_work
sum_of(const struct pgrab_cluster *c, const char *kind, size_t without)
{
	struct pgrab_work sum = {.kind = kind};

	for (size_t i = 0; i < c->n_nodes; i++) {
		for (size_t k = 0; i != without && k < c->nodes[i].n_work; k++) {
			const struct pgrab_work *w = &c->nodes[i].work[k];

			if (strcmp(w->kind, kind) != 0)
				continue;
			sum.runs += w->runs;
			sum.succeeded += w->succeeded;
			sum.timed += w->timed;
			sum.typical_us += w->timed * w->typical_us;
		}
	}
	sum.typical_us = sum.timed > 0 ? sum.typical_us / sum.timed : 0;
	return sum;
}

static double
success_of(const struct pgrab_cluster *c)
{
	const struct pgrab_node *me = &c->nodes[c->self];
	double got = PRIOR, promised = PRIOR;

	for (size_t k = 0; k < me->n_work; k++) {
		struct pgrab_work others = sum_of(c, me->work[k].kind, c->self);

		got += me->work[k].succeeded;
		promised += others.runs < LITTLE ? me->work[k].succeeded
						 : me->work[k].runs * others.succeeded / others.runs;
	}
	return at_most(got / promised, 1);
}

/* Against the mean of all, with this node: so of two nodes, one twice as fast, it gets twice as much. */
static double
speed_of(const struct pgrab_cluster *c)
{
	const struct pgrab_node *me = &c->nodes[c->self];
	double sum = PRIOR_TIMED, runs = PRIOR_TIMED;

	for (size_t k = 0; k < me->n_work; k++) {
		const struct pgrab_work *w = &me->work[k];
		struct pgrab_work all = sum_of(c, w->kind, c->n_nodes);

		if (all.timed - w->timed < LITTLE || !(w->typical_us > 0))
			continue;
		sum += w->timed * within(all.typical_us / w->typical_us, 1.0 / 4, 4);
		runs += w->timed;
	}
	return sum / runs;
}

/* Against the mean of all: when all are at their limit, none is the worse for it. */
static double
cpu_of(const struct pgrab_cluster *c)
{
	double sum = 0, known = 0, own = c->nodes[c->self].cpu_free;

	for (size_t i = 0; i < c->n_nodes; i++) {
		if (c->nodes[i].cpu_free < 0)
			continue;
		sum += c->nodes[i].cpu_free;
		known++;
	}
	if (own < 0 || own >= SPARE)
		return 1;
	return within((own + SPARE) / (sum / known + SPARE), 1.0 / 2, 1);
}

static double
memory_of(const struct pgrab_cluster *c)
{
	double own = c->nodes[c->self].memory_free;

	return own < 0 || own >= SPARE ? 1 : 1.0 / 4 + own / SPARE * 3 / 4;
}

static int64_t
nearest_step(double percent)
{
	size_t i = 0;

	while (i + 1 < N_STEPS && percent * percent > (double)steps[i] * (double)steps[i + 1])
		i++;
	return steps[i];
}

static int64_t
decide(int64_t before, const struct parts *p)
{
	double percent = ORDINARY * p->success * p->speed * p->cpu * p->memory;
	bool was_sick = before <= TRICKLE;

	if (p->success < (was_sick ? WELL : SICK))
		return was_sick && before > 1 ? before - 1 : TRICKLE;
	percent = within(percent, (double)steps[0], (double)steps[N_STEPS - 1]);
	if (!was_sick && percent < (double)before * HOLD && (double)before < percent * HOLD)
		return before;
	return nearest_step(percent);
}

static int64_t
fitness(void *self, const struct pgrab_cluster *c, char *why, size_t why_size)
{
	struct parts p;

	(void)self;
	if (c->self >= c->n_nodes)
		return ORDINARY;
	p = (struct parts){
	    .success = success_of(c), .speed = speed_of(c), .cpu = cpu_of(c), .memory = memory_of(c)};
	snprintf(why, why_size, "success %.0f%%, speed %.0f%%, cpu %.0f%%, memory %.0f%%", 100 * p.success,
	    100 * p.speed, 100 * p.cpu, 100 * p.memory);
	return decide(c->nodes[c->self].fitness, &p);
}

static void
shards(void *self, const struct pgrab_cluster *c, size_t rank, struct pgrab_shard_set *out)
{
	struct table t;

	(void)self;
	if (rank >= c->n_nodes)
		return;
	table_begin(&t, c);
	for (size_t i = 0; i < t.n; i++) {
		const struct pgrab_node *n = &c->nodes[i];

		t.want[i] = weight_of(n) * (double)(n->slots > 0 ? n->slots : 1) *
			    (double)(is_sick(n) ? TRICKLE : n->fitness);
		if (is_sick(n))
			t.key[i] = pgrab_mix64(t.key[i] + (uint64_t)n->fitness);
	}
	shares_give(&t, 1, rank, out);
}

static bool
may_steal(void *self, const struct pgrab_cluster *c)
{
	(void)self;
	return c->self < c->n_nodes && !is_sick(&c->nodes[c->self]);
}

const struct pgrab_strategy strategy_adaptive = {
    .abi = PGRAB_STRATEGY_ABI,
    .name = "adaptive",
    .summary = "shares follow what nodes achieve: speed, failures, free CPU and memory",
    .shards = shards,
    .fitness = fitness,
    .may_steal = may_steal,
};

PGRAB_STRATEGY_EXPORT(strategy_adaptive)
