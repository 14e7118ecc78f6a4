/* What a thread does that carries out many runs at once: the pools', the http crew's.  It owns a run from
 * when it takes it to the finisher, as a worker does; only run->stop is touched from outside.  What one round
 * brings goes to the boss and to the finisher in one push each. */
#pragma once

#include <stdbool.h>

#include "core/run.h"

struct node;

/* Owned by the thread. */
struct carrier {
	struct node *node; /* borrowed */
	/* of this round: notes for the boss, and what has ended */
	struct mail *notes, **notes_end;
	struct run *ended;
	int64_t n_ended;
};

void carrier_init(struct carrier *c, struct node *n);

/* A run is about to be executed: true, and it has a ->live.  False: it must not be, and has gone on. */
bool carrier_begin(struct carrier *c, struct run *r);
/* Why it must stop. */
enum pgrab_stop carrier_stop(const struct carrier *c, const struct run *r);
/* It is over, whether it was begun or not, and goes on.  outcome OUTCOME_NONE: as the result says;
 * OUTCOME_AWAITS: so does a failure, and a success is not one yet. */
void carrier_end(struct carrier *c, struct run *r, enum outcome outcome, const struct pgrab_result *result);
/* At the end of a round. */
void carrier_flush(struct carrier *c);
