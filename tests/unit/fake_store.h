/*
 * A store in memory with the rules of the real one: versions, fences, locked rows, refusals, answers that are
 * lost. One for a program; any thread.  `store_fake` is what a node of a test asks.
 */
#pragma once

#include <pthread.h>

#include "core/run.h"
#include "db/store.h"

#define FAKE_TASKS   600
#define FAKE_NODES   64
#define FAKE_HISTORY 20000
#define FAKE_LANE    10
#define FAKE_LARGE   11 /* a second lane, see fake.large */
#define FAKE_BAND    2  /* priority 0 */

enum fake_call {
	FAKE_LANES,
	FAKE_LOOK,
	FAKE_CLOCK,
	FAKE_MISFIRE,
	FAKE_CLAIM,
	FAKE_HELD,
	FAKE_START,
	FAKE_STARTED,
	FAKE_RELEASE,
	FAKE_FINISH,
	FAKE_PARK,
	FAKE_RECORDED,
	FAKE_LOST,
	FAKE_RECOVER,
	FAKE_DUTIES,
	FAKE_OWN,
	FAKE_HOLD_DROP,
	FAKE_CONNECT, /* heartbeat; starter and finisher, ahead of what is planned */
	FAKE_BEAT,
	FAKE_REGISTER,
	FAKE_OTHER,
	FAKE__COUNT
};

enum fake_answer {
	ANSWER_TRUE,          /* done, and said so */
	ANSWER_AGAIN,         /* not done: no connection */
	ANSWER_REFUSED,       /* not done: the server says fake.sqlstate */
	ANSWER_LOST_NOT_DONE, /* RC_UNKNOWN, and nothing happened */
	ANSWER_LOST_DONE,     /* RC_UNKNOWN, and it happened */
	ANSWER__COUNT
};

enum fake_status { FAKE_SCHEDULED, FAKE_CLAIMED, FAKE_RUNNING, FAKE_GONE, FAKE_PARKED };

/* Which part of a run's end the server refuses. */
enum fake_poison { POISON_NONE, POISON_TEXT, POISON_END, POISON_HISTORY, POISON_ALL };

struct fake_task {
	int64_t id, version;
	int64_t incarnation; /* that has it; 0: none */
	enum fake_status status;
	int64_t due_us, held_us; /* on the database's clock */
	int64_t lane;
	bool once, locked, misfired;
	int64_t mute_us; /* its end takes the server that long */
	enum fake_poison poison;
	unsigned starts, ends, lost; /* that the store took */
};

struct fake_node {
	int64_t id, incarnation, beat, in_hand;
	bool up;
	char name[16];
	int64_t heartbeat_us, dead_after_us;
	int64_t life; /* of the server, in which it beat; 0: its runs outlast none */
};

struct fake_end {
	int64_t id, version, incarnation;
	enum outcome outcome;
	bool has_text;
};

struct fake_store {
	pthread_mutex_t lock;
	struct fake_task task[FAKE_TASKS];
	size_t n_tasks;
	struct fake_node node[FAKE_NODES];
	size_t n_nodes;
	struct fake_end history[FAKE_HISTORY];
	size_t n_history;
	int64_t db_ahead_us; /* the database's clock - clock_mono_us */
	uint64_t random;
	const char *kind;  /* of every task */
	struct need large; /* of tasks in FAKE_LARGE; no slots: there is no such lane */

	/* what goes wrong */
	bool down;                          /* no connection */
	unsigned trouble;                   /* how many of a thousand calls fail, at random */
	enum fake_answer next[FAKE__COUNT]; /* the next answer to this one, once */
	char sqlstate[6];                   /* of ANSWER_REFUSED */
	bool not_durable;
	bool line;            /* tasks wait in line for a limit */
	bool no_upkeep;       /* for two hours */
	int64_t notices;      /* to tell people of; one at a time */
	int64_t waits;        /* that are over; one at a time */
	int64_t next_wait_us; /* until another is; 0: none */
	unsigned slices;      /* of the search for strays, still to be done */
	bool refuse_ends;     /* a trigger that lets no run end */
	bool mute;            /* nor is any answered */
	unsigned generation;  /* of the heartbeat's connection */
	struct server_mark server;
	int64_t life;          /* of the server */
	bool can_tell, over;   /* could its end be proven; is it */
	bool pooled, may_lose; /* behind a pooler; a beat may be lost */
	struct node_wishes wishes;

	/* what was asked */
	unsigned calls[FAKE__COUNT];
	unsigned disconnects, declared_after; /* how many there were when a node was declared dead */
	size_t claimed_due, claimed_timed;    /* candidates of the last claim */
	void (*before)(enum fake_call call);  /* what happens while it is under way; may be NULL */
	void (*after)(enum fake_call call);
};
extern struct fake_store fake;
extern const struct store store_fake;

void fake_start(uint64_t seed);
int64_t fake_now_us(void); /* the database's clock */
struct fake_task *fake_add(int64_t due_us);
struct fake_task *fake_task(int64_t id);
struct fake_node *fake_node(const char *name); /* makes it, up */
size_t fake_count(enum fake_status status);
size_t fake_ends_of(int64_t id, int64_t version); /* rows of the history */
