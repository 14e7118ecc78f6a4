/*
 * Pools of handler processes: what a [pool NAME] section of the node's file asks for.
 *
 * A pool keeps its processes: starts them through the keeper, hands them tasks by the protocol, checks that
 * they still answer, and replaces those that have ended.  A task that a process had when it ended has failed;
 * it is over only when nothing of the process is left.
 *
 * All of it belongs to the one thread that calls pool_* (except where it says "any thread").  It has no
 * connection, and knows nothing of the boss: a struct pool_host does the node's part.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/run.h"
#include "core/step.h"
#include "exec/surroundings.h"

struct keeper;
struct pools;

#define POOLS_MAX 16 /* of a node */

/* Borrowed, and constant while the pools live. */
struct pool_setup {
	const char *name;
	const char *const *argv;  /* ended by NULL */
	const char *const *kinds; /* ended by NULL */
	struct surroundings around;
	int processes;
	int at_once;       /* tasks of one process; 0: as many as it says itself */
	int64_t max_tasks; /* then it is replaced; 0: never */
	int64_t start_timeout_us, ping_timeout_us;
};

/* The state of a pool, for people. */
struct pool_status {
	int up;          /* processes that take tasks */
	int slots;       /* tasks at once, of these together */
	int64_t lost;    /* processes that ended without being asked to */
	char fault[600]; /* why the last one could not be used; "" when one came up since */
	const char *library;
	const char *const *schemas; /* JSON of each kind of the setup, in its order; NULL: none */
};

struct pool_host {
	void *ctx;
	struct keeper *keeper;
	int64_t kill_grace_us;
	/* May a process be started now? */
	bool (*may_start)(void *ctx);
	/* A run is about to be handed to a process.  True: go ahead.  False: it must not run any more, and
	 * the host has taken it. */
	bool (*begin)(void *ctx, struct run *r);
	enum pgrab_stop (*stop)(void *ctx, const struct run *r);
	void (*print)(void *ctx, struct run *r, const char *text, size_t n);
	/* percent negative, text NULL: unknown. */
	void (*progress)(void *ctx, struct run *r, double percent, const char *text);
	void (*waits_for)(void *ctx, struct run *r, const char *text);
	/* Takes s, has it recorded, and gives it back with the answer by pools_answer(). */
	void (*step)(void *ctx, struct run *r, struct step *s);
	/* It is over and the host's again.  outcome OUTCOME_NONE: as the result says. */
	void (*end)(void *ctx, struct run *r, enum outcome outcome, const struct pgrab_result *result);
	/* This pool can carry out that many more runs at once, or fewer. */
	void (*slots)(void *ctx, size_t pool, int more);
	/* pool_status has changed. */
	void (*changed)(void *ctx);
	/* Called once after all that one round has brought. */
	void (*flush)(void *ctx);
};

struct pools *pools_create(const struct pool_setup *setup, size_t n, const struct pool_host *host);
void pools_destroy(struct pools **ps); /* after pools_run has returned */

/* Runs until pools_quit, and then until every process has ended or half a second has passed:
 * keeper_stop ends the rest. */
void pools_run(struct pools *ps);

/* Any thread.  A run for the pool r->crew - 1; it is due soon, and must have been started. */
void pools_submit(struct pools *ps, struct run *r);
/* Any thread.  What became of steps that the host was given: a chain of their mails. */
void pools_answer(struct pools *ps, struct step *first);
/* Writing to this descriptor makes the pools check which of their runs must stop. */
int pools_wake_fd(const struct pools *ps);
/* Any thread.  The processes of now are to be replaced, one of each pool at a time, as their tasks end: their
 * program may have changed. */
void pools_renew(struct pools *ps);
/* Any thread.  No run is left, and none will come: the processes are to end. */
void pools_quit(struct pools *ps);

/* The thread of pools_run only.  Valid until the callback returns. */
void pools_status(const struct pools *ps, size_t pool, struct pool_status *out);

/* "python3 handlers.py 'a b'" split at blanks; quotes work as in a shell, and nothing else does.  *out: ended
 * by NULL, one block, the caller frees it.  RC_BAD: a quote is not closed, or there is nothing. */
CHECKED enum rc pool_words(const char *text, char ***out, struct err *err);
