/*
 * A simulated cluster that asks the real strategies: nodes, keys, and a clock of its own.
 *
 * What is real: strategies/ behind the host that the node uses, and core/work, the evidence for fitness.
 * What is modelled: the due tasks of a shard are a line; a node with a free worker takes from the lines of
 * the shards that are its own by what it last read of the others; what stands in line for STEAL_AFTER may be
 * taken by any node that has nothing else to do.  (Real nodes also help those that are busy at once: not
 * modelled, so waits are longer here.)
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "core/work.h"
#include "strategy/host.h"

#define NODES_MOST 1000
#define SLOTS_MOST 16
#define GROUPS     3 /* who can run a task: all nodes, those of one site, of the other */
#define NOBODY     UINT16_MAX
#define NO_VERSION UINT32_MAX

/* Seconds, as everywhere here. */
#define TICK        2.0  /* rows change, and nodes read, at its multiples */
#define JUDGE_EVERY 5.0  /* five heartbeats */
#define SILENT      3.0  /* until a death is noticed */
#define DEAD_AFTER  20.0 /* until its runs are put back */
#define STEAL_AFTER 2.0
#define RETRY_AFTER 10.0

#define SICK_BELOW 10 /* as adaptive says it */

struct plan {
	const char *strategy;
	uint32_t nodes, keys;
	double hours, load; /* of all there is */
	double churn;       /* changes of membership per hour */
	uint64_t seed;
};

/* The picture that nodes have read: who there is, how fit, and what the strategy makes of it. */
struct version {
	struct version *next; /* that some node still goes by */
	uint32_t readers;     /* nodes whose picture it is */
	size_t n;
	struct pgrab_node node[NODES_MOST];
	uint16_t who[NODES_MOST]; /* by rank */
	int16_t rank[NODES_MOST]; /* by node; -1: not in it */
	uint16_t owner[GROUPS][PGRAB_SHARDS];
};

struct task {
	uint32_t key;
	unsigned refs; /* a line, a run or an event that gives it back; and one event of stealing */
	double due;
	bool measured; /* its wait; not while half of the nodes are away */
	bool in_line;
	TAILQ_ENTRY(task) beside;
};

TAILQ_HEAD(line, task);

struct run {
	struct task *task; /* NULL: the slot is free */
	double took;
	bool fails;
};

struct node {
	char name[16];
	double speed;
	uint32_t slots, busy;
	uint16_t site;   /* 0, 1 */
	bool up, listed; /* it runs; others can read its row */
	bool sick, was_sick;
	uint32_t life; /* so that events for an earlier one are known */
	struct version *view;
	int64_t fitness;
	double faded_at, up_since, up_for, busy_for; /* busy_for: sum of its runs */
	struct work work;
	struct pgrab_work said[WORK_KINDS]; /* with the last beat */
	size_t n_said;
	struct run run[SLOTS_MOST];
	uint16_t own[GROUPS * PGRAB_SHARDS]; /* lines */
	size_t n_own, turn;
};

struct key {
	uint32_t shard;
	uint16_t group, kind;
	double gap, took; /* between fires, the mean; of a run on an ordinary node, the median */
};

struct moves {
	uint64_t changes, moved, must;
};

/* Waits, in classes of 7 %. */
#define WAIT_CLASSES 256
struct waits {
	uint64_t n, in[WAIT_CLASSES];
};

struct figures {
	uint64_t due, begun, done, stolen, failed, lost;
	uint64_t contested;      /* begun while two nodes thought it their own */
	uint64_t unowned, twice; /* shards, in settled pictures: must be 0 */
	uint64_t sick_runs, all_while_sick;
	uint64_t words;     /* new ones of fitness */
	double sunk, risen; /* the longest that a sick node took, and one that was mended; below 0: never */
	double most;        /* of the time of its workers that the busiest node used */
	double balance;     /* that, against all nodes together */
	struct moves members, fitness, trickle; /* trickle: what a sick node tries */
	struct waits waits;
};

struct world {
	struct plan plan;
	struct strategy *strategy;
	bool judges;
	double now;
	uint64_t random;
	struct node *node;
	struct key *key;
	struct line line[GROUPS * PGRAB_SHARDS];
	struct version *current;
	bool members_changed, fitness_changed, trickle_changed, site_out;
	double back_at, calm_at; /* after a site was out; and then waits are measured again */
	uint64_t in_lines;
	uint32_t patient; /* the node that is or was sick; plan.nodes: none yet */
	double since;     /* it fell ill, or was mended; below 0: it is known how long that took to show */
	struct version *versions;
	struct figures f;
	struct event *event;
	size_t n_events, events_room;
};

enum what { FIRE, END, TICKS, STEAL, JUDGE, CHURN, UNLIST, JOIN, GIVE_BACK, SICK, WELL, SITE_OUT, SITE_BACK };

struct event {
	double at;
	enum what what;
	uint32_t who, life, slot;
	struct task *task;
};

/* events.c */
void event_add(struct world *w, struct event e);
bool event_next(struct world *w, struct event *out);
double chance_to(struct world *w, double below);
uint32_t chance_of(struct world *w, uint32_t below);
double gap_of(struct world *w, double mean);                /* of a Poisson process */
double about(struct world *w, double median, double sigma); /* log-normal */
void wait_note(struct waits *a, double seconds);
double wait_at(const struct waits *a, double part);

/* views.c */
void views_change(struct world *w); /* a tick: rows as they are now, if they have changed */
void view_take(struct world *w, uint32_t node);
void view_drop(struct world *w, uint32_t node);
void view_judge(struct world *w, uint32_t node);
void views_end(struct world *w);

/* lines.c */
bool node_has_room(const struct node *n);
void task_new(struct world *w, uint32_t key);
void task_offer(struct world *w, struct task *t); /* to its owners; or it stands in line */
void task_steal(struct world *w, struct task *t);
void task_give_back(struct world *w, struct task *t, double after);
void task_unref(struct task *t);
void node_takes(struct world *w, uint32_t node); /* from its lines, for its free workers */
void node_ends(struct world *w, uint32_t node, uint32_t slot);
uint64_t tasks_waiting(const struct world *w);

/* world.c */
void world_run(struct world *w, const struct plan *plan);
void world_end(struct world *w);
