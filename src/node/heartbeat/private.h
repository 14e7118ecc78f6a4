/* The inside of the heartbeat: heartbeat.c is the thread, name.c the node's name, figures.c what a beat says,
 * fitness.c how fit the node is, fence.c the end of the lease, outlast.c a restart of the server, back.c what
 * the starter could not hand back, mail.c what other threads call, wishes.c what people want. */
#pragma once

#include <pthread.h>

#include "base/buf.h"
#include "base/machine.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "core/run.h"
#include "db/store.h"
#include "node/context.h"

#define HEARD_MAX 64

/* Another holder of our name, as we saw it. */
struct name_watch {
	int64_t incarnation, beat;
	int64_t life;              /* of the server */
	int64_t since_us, seen_us; /* unchanged since; last looked at */
};

struct heartbeat {
	struct node *node; /* borrowed */
	pthread_t thread;
	struct gate gate;
	void (*changed)(void *ctx);
	void *changed_ctx;

	/* shared, under lock */
	pthread_mutex_t lock;
	struct heard {
		int64_t node_id;
		enum member_news news;
	} heard[HEARD_MAX]; /* what is new of nodes */
	size_t n_heard;
	bool unread; /* what else is new takes a reading of the others */
	bool rung;   /* there is something to read in our row */

	/* owned by the thread (by main before it starts) */
	struct one_thread only;
	int64_t next_us; /* beat */
	const struct store *store;
	struct db *db;
	struct members members;
	struct backoff backoff;
	char host[256];
	int64_t mine; /* the last incarnation we tried to register */
	struct name_watch watch;
	struct server_mark server;         /* what answered last; system 0: nothing is known */
	unsigned generation;               /* of the connection that `server` is about */
	int64_t beat;                      /* our row's, at least */
	bool durable;                      /* as it said with the last beat */
	int64_t outlast_us;                /* see outlast.c; 0: nothing is outlasted */
	bool idle;                         /* it said that nothing is in hand */
	int64_t wish_us;                   /* see next_wish() */
	int64_t next_others_us;            /* the first beat after this reads the others again */
	int64_t want_others_us;            /* a beat at this time does, too; CLOCK_NEVER: none */
	int64_t passed_on_us;              /* when it was last passed on without a beat who leaves */
	int64_t round_trip_us;             /* of the last beat; 0: none yet */
	int64_t keepers_lost, log_dropped; /* counted so far */
	struct run *back;                  /* chain of copies to be handed back */
	struct buf crews, doubts, work;    /* the texts of node_beat */
	struct machine machine;
	struct strategy *strategy; /* NULL: it has no word for fitness */
	int64_t fitness_us;        /* when it was last asked; 0: never */
	int64_t fitness;           /* its last word; 0: none */
	char why[128];
	bool in_order;
};

/* One round of the thread: waits for the next beat, or a ring, and beats.  False: it was stopped. */
bool heartbeat_round(struct heartbeat *h);

/* A reading of all rows; the clock is noted. */
enum rc heartbeat_observe(struct heartbeat *h, struct err *err);
void heartbeat_renew(struct heartbeat *h, int64_t sent_boot_us);
void heartbeat_obey(struct heartbeat *h, const struct node_wishes *w);
/* Before a beat is sent: from here on others may go by it, whether we see the answer or not. */
void heartbeat_cut(struct heartbeat *h, const struct node_beat *b);
/* That beat, sent then, has got through. */
void heartbeat_beaten(struct heartbeat *h, int64_t sent_boot_us, const struct node_beat *b, bool durable);
/* No beat gets through: if that life of the server is over, the lease goes on for a while (ADR 29). */
void heartbeat_outlast(struct heartbeat *h);

/* Passes on the picture of the cluster, to the loaders, and the dead, to recover. */
void heartbeat_publish(struct heartbeat *h);

/* A beat at this time reads the others, or an earlier one; while beats fail, the next that succeeds. */
void heartbeat_want_others(struct heartbeat *h, int64_t at_us);
/* Each node reads all others, so together they read n * n rows: the more there are, the longer the time
 * between two readings, however many join. */
int64_t heartbeat_others_gap(const struct heartbeat *h);

/* Takes in what was heard.  True: heartbeat_ring was called, a beat is wanted at once. */
bool heartbeat_take_heard(struct heartbeat *h);

/* Hands back some of what is in the back queue; what is locked is tried again after the others. */
void heartbeat_hand_back(struct heartbeat *h);

/* Opens the strategy, if it judges nodes.  RC_BAD: it cannot be opened. */
CHECKED enum rc heartbeat_fitness_open(struct heartbeat *h, struct err *err);
/* Before a beat: if it is time, asks it anew. */
void heartbeat_fitness(struct heartbeat *h);

/* What this node says with its next beat, with what it has counted since the last; heartbeat_give_back
 * keeps the counts of a beat that failed for the next.  (After a lost reply they may count twice:
 * these are numbers for people.) */
struct node_beat heartbeat_figures(struct heartbeat *h);
void heartbeat_give_back(struct heartbeat *h, const struct node_beat *b);

void heartbeat_tell_change(struct heartbeat *h);

/* From the loss of the lease to a new incarnation.  Returns early on stop. */
void heartbeat_fence(struct heartbeat *h, int64_t old, const char *why);

/* Before the threads: waits for the server and for the name; as heartbeat_create. */
CHECKED enum rc heartbeat_name_first(struct heartbeat *h, struct err *err);
/* After a fence: one try.  RC_AGAIN also while another live node has the name. */
CHECKED enum rc heartbeat_name_again(struct heartbeat *h, int64_t old, struct err *err);
