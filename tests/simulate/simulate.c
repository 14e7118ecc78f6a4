/*
 * Hundreds of nodes for a day, in seconds: see world.h for what is real and what is modelled.
 *
 *     simulate [nodes=N] [keys=N] [hours=H] [load=L] [churn=C] [seed=N] [strategy=NAME] [check]
 *
 * Prints a row per strategy, and what turns make of the keys.  check: exit status 1 if one is not as good as
 * it should be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "turns.h"
#include "world.h"

/* What a strategy must keep to; 0: no bound. */
struct bounds {
	const char *strategy;
	double balance; /* most used / mean */
	double members; /* moved / had to, when nodes come and go */
	double fitness; /* likewise, when one says another word */
	double wait;    /* seconds that 99.9 % of the tasks wait at most */
	double sick;    /* part of the runs that a node gets that fails them all, against its fair part */
};

static const struct bounds all_bounds[] = {
    {"id_hash", 0, 0, 0, 0, 0},
    {"weight", 1.6, 1.4, 0, 0, 0},
    {"rendezvous", 0, 1.2, 0, 0, 0},
    {"adaptive", 1.7, 1.4, 2, 10, 0.3},
};

static double
ratio(const struct moves *m)
{
	return m->must > 0 ? (double)m->moved / (double)m->must : 1;
}

static bool
over(const char *what, double is, double bound)
{
	if (bound > 0 && is > bound)
		printf("  %s: %.2f, more than %.2f\n", what, is, bound);
	return bound > 0 && is > bound;
}

/* Against a node that gets as much as any other. */
static double
part_of_sick(const struct world *w)
{
	const struct figures *f = &w->f;

	return f->all_while_sick > 0 ? (double)f->sick_runs / (double)f->all_while_sick * w->plan.nodes : 0;
}

static bool
is_wrong(const struct world *w, const struct bounds *b)
{
	const struct figures *f = &w->f;
	uint64_t waiting = tasks_waiting(w);
	bool wrong = false;

	if (f->twice > 0 || f->unowned > 0)
		wrong = printf("  shards with two owners: %llu, with none: %llu\n",
			    (unsigned long long)f->twice, (unsigned long long)f->unowned) > 0;
	if (f->due != f->done + waiting)
		wrong =
		    printf("  %llu tasks were due, %llu are done, %llu wait\n", (unsigned long long)f->due,
			(unsigned long long)f->done, (unsigned long long)waiting) > 0;
	wrong |= over("balance", f->balance, b->balance);
	/* With few shards each, rounding moves some between nodes that have not changed, and one is much. */
	wrong |= over("moved by members", ratio(&f->members), b->members * (1 + w->plan.nodes / 100.0));
	wrong |= over("moved by fitness", ratio(&f->fitness), b->fitness * (1 + w->plan.nodes / 100.0));
	wrong |= over("wait p99.9", wait_at(&f->waits, 0.999), b->wait);
	wrong |= over("part of a sick node", part_of_sick(w), b->sick * (1 + w->plan.nodes / 300.0));
	if (w->judges && (f->sunk < 0 || f->risen < 0))
		wrong = printf("  a sick node did not sink, or a mended one did not rise\n") > 0;
	return wrong;
}

static void
print_row(const struct world *w)
{
	const struct figures *f = &w->f;

	printf("%-11s %9llu %8.2f %8.2f %8llu %6.2f %6llu %8llu %6.2f %7.3f %7.2f %7.2f %8.4f %6.2f %6.0f "
	       "%6.0f\n",
	    w->plan.strategy, (unsigned long long)f->begun, f->most, f->balance,
	    (unsigned long long)f->members.moved, ratio(&f->members), (unsigned long long)f->words,
	    (unsigned long long)f->fitness.moved, ratio(&f->fitness), wait_at(&f->waits, 0.5),
	    wait_at(&f->waits, 0.99), wait_at(&f->waits, 0.999), (double)f->stolen / (double)f->begun,
	    part_of_sick(w), f->sunk, f->risen);
	fflush(stdout);
}

static bool
number_of(const char *arg, const char *name, double *out)
{
	size_t n = strlen(name);

	if (strncmp(arg, name, n) != 0 || arg[n] != '=')
		return false;
	*out = strtod(arg + n + 1, NULL);
	return true;
}

static void
usage(const char *arg)
{
	fprintf(stderr,
	    "%s: nodes=2..%d keys=N hours=H load=0..1 churn=CHANGES_PER_HOUR seed=N strategy=NAME check\n",
	    arg, NODES_MOST);
	exit(2);
}

static void
read_plan(int argc, char **argv, struct plan *p, bool *check)
{
	double nodes = 300, keys = 10000, seed = 1;

	*p = (struct plan){.hours = 24, .load = 0.6, .churn = 12};
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "check") == 0)
			*check = true;
		else if (strncmp(argv[i], "strategy=", 9) == 0)
			p->strategy = argv[i] + 9;
		else if (!number_of(argv[i], "nodes", &nodes) && !number_of(argv[i], "keys", &keys) &&
			 !number_of(argv[i], "hours", &p->hours) && !number_of(argv[i], "load", &p->load) &&
			 !number_of(argv[i], "churn", &p->churn) && !number_of(argv[i], "seed", &seed))
			usage(argv[i]);
	}
	if (!(nodes >= 2 && nodes <= NODES_MOST && keys >= 1 && keys <= 1e6 && p->hours > 0 && p->load > 0 &&
		p->churn > 0))
		usage(argv[0]);
	p->nodes = (uint32_t)nodes;
	p->keys = (uint32_t)keys;
	p->seed = (uint64_t)seed;
}

int
main(int argc, char **argv)
{
	struct world *w = xcalloc(1, sizeof *w);
	bool check = false, wrong = false;
	const char *only;
	struct plan plan;

	log_init(LOG_LEVEL__COUNT, LOG_TEXT, "simulate");
	read_plan(argc, argv, &plan, &check);
	only = plan.strategy;
	printf("%u nodes, %u keys, %g hours, load %g, %g changes of nodes an hour, seed %llu\n",
	    (unsigned)plan.nodes, (unsigned)plan.keys, plan.hours, plan.load, plan.churn,
	    (unsigned long long)plan.seed);
	printf("%-11s %9s %8s %8s %8s %6s %6s %8s %6s %7s %7s %7s %8s %6s %6s %6s\n", "strategy", "runs",
	    "busiest", "balance", "members", "x", "words", "fitness", "x", "p50", "p99", "p99.9", "stolen",
	    "sick", "sunk", "risen");
	for (size_t i = 0; i < sizeof all_bounds / sizeof *all_bounds; i++) {
		if (only != NULL && strcmp(only, all_bounds[i].strategy) != 0)
			continue;
		plan.strategy = all_bounds[i].strategy;
		world_run(w, &plan);
		print_row(w);
		wrong |= is_wrong(w, &all_bounds[i]);
		world_end(w);
	}
	wrong |= only == NULL && !turns_are_fair(plan.nodes, plan.keys, plan.seed);
	free(w);
	return check && wrong ? 1 : 0;
}
