/* Steps that are to be recorded: the teller's, who asks the database about many at once and gives them back
 * to the handlers with the answer.  What the database cannot answer now waits here. */
#pragma once

#include "base/mailbox.h"
#include "core/backoff.h"
#include "core/step.h"

struct db;
struct node;

struct step_list {
	struct step *first, **end;
};

struct steps {
	struct mailbox *inbox;        /* anybody -> the teller */
	struct step_list now, locked; /* locked: another session has the row of the task */
	struct step_list done;        /* for the handlers */
	int64_t now_us, locked_us;    /* not before */
	struct backoff backoff, lock_backoff;
};

void steps_init(struct steps *q);
void steps_fini(struct steps *q);

/* The teller.  Returns when to call again; *asked_out: the database was asked. */
int64_t steps_round(struct steps *q, const struct node *n, struct db *db, bool *asked_out);
