/* The inside of recover: recover.c is the thread, sweep.c what is put back, leaks.c what this node holds by
 * mistake, waits.c what has waited in vain. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/thread.h"
#include "db/store.h"
#include "node/doubts.h"
#include "node/recover/recover.h"

#define DEAD_MAX 64 /* noticed at once; the others are reported again with the next heartbeat */

struct suspect {
	int64_t id, incarnation, beat, life;
	char name[64];
	int64_t silent_us;
};

struct recover {
	struct node *node; /* borrowed */
	pthread_t thread;
	struct gate gate;

	/* shared, under lock */
	pthread_mutex_t lock;
	struct suspect suspect[DEAD_MAX];
	size_t n_suspects;
	int64_t own; /* an old incarnation of ours to put back, or 0 */

	_Atomic bool line;   /* tasks may wait in line for a limit */
	_Atomic bool notice; /* there may be alerts to insert */
	_Atomic bool waits;  /* a wait has begun that is over soon */

	/* owned by the thread */
	struct one_thread only;
	const struct store *store;
	struct db *db;
	struct sifter sifter; /* of what is put back */
	int64_t next_us;      /* round */
	int64_t next_duties_us, next_waits_us, next_leaks_us, next_upkeep_us;
	int64_t minute;          /* of the wall clock, in which it was last asked whose turn it is */
	struct cluster *cluster; /* a reference to the picture of the last round, or NULL */
	int64_t claims_us;       /* when a round last found that there had been a claim */
	int64_t last_claim;      /* ours, by the last round */
	int64_t stir_us;         /* when a node last came, went or had something in hand, or left it behind */
	int64_t batch;           /* our last claim, when leaks were last looked for */
	bool leaks_said;         /* that they could not be looked for, since they last could */
	int64_t complain_us;     /* no sooner is it said again that the server refuses a statement */
	int clean;               /* times in a row that nothing was in hand, and no leak was found */
};

/* Puts back what an incarnation holds, or all that no node holds that is up (0).  False: not all was
 * answered; what is doubted by then is found again among the orphans. */
bool recover_sweep(struct recover *r, int64_t incarnation);

/* idle: nothing is in hand, so the next call is a minute away.  False: could not look, or could not put back
 * what was found; try again soon. */
bool recover_leaks(struct recover *r, bool idle);

/* Says that a statement of `what` failed: a warning, once a minute, when the fault is its own. */
void recover_failed(struct recover *r, const char *what, enum rc rc, const struct err *err);

/* Ends what has waited in vain, and sets when to do that again. */
void recover_end_waits(struct recover *r, int64_t now);
