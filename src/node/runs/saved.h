/* Checkpoints of shell and exec runs on their way to the database.  One is under way at a time; of those that
 * are printed meanwhile the last one follows.  A run does not end before its last one is recorded, or it is
 * certain that it will not be: the next attempt must find it. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "core/checkpoint.h"
#include "core/run.h"
#include "core/step.h"

struct teller;

/* Embedded by value in what the worker shows of its run. */
struct saved {
	struct checkpoint_reader reader; /* the worker's */
	struct run *run;
	struct teller *teller; /* NULL: this run has no checkpoints */
	pthread_mutex_t lock;
	pthread_cond_t idle;
	bool under_way;
	char *next; /* JSON; NULL: none waits */
};

/* The worker. */
void saved_begin(struct saved *s, struct teller *t, struct run *r);
void saved_print(struct saved *s, const char *bytes, size_t n);
void saved_end(struct saved *s); /* waits for what is under way */

/* The teller: takes the step back with its answer. */
void saved_answer(struct step *step);
