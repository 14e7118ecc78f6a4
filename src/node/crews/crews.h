/*
 * Who carries out runs: crew 0 is the worker threads; then come the pools of handler processes, each a crew
 * of its own; the last is the thread that carries out all http tasks, where the node runs these.
 *
 * What the boss and the loaders need of each beside its numbers (boss/private.h): which kinds are its own,
 * and how it takes a run.  What a claim starts goes to its crew at once.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/run.h"

struct node;

size_t crews_count(const struct node *n); /* with the workers */
/* The crew that carries this kind out. */
size_t crews_of(const struct node *n, const char *kind);
/* As beats and metrics name it; "": the workers. */
const char *crews_name(const struct node *n, size_t crew);
/* Slots for this kind, at most. */
int64_t crews_room(const struct node *n, const char *kind);
/* Slots of all of them, as far as that is known before handlers have said how many they take. */
int64_t crews_slots(const struct node *n);
/* Calls each() for every kind that is not the workers'. */
void crews_kinds(const struct node *n, void (*each)(void *ctx, const char *kind), void *ctx);

/* Takes the args of a run that has started apart, as its crew needs them.  By who has the run. */
void crews_args(const struct node *n, struct run *r);

/* Not for the workers.  take: a run that is on record as started, due soon. */
void crews_take(struct node *n, struct run *r);
int crews_wake_fd(const struct node *n, size_t crew); /* tells it to look at the stops of its runs */
