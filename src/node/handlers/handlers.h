/* The node's side of the pools of handler processes: one thread runs all of them; another tells the database
 * what state they are in and which kinds they serve. */
#pragma once

#include <stddef.h>

#include "base/rc.h"
#include "core/run.h"
#include "core/step.h"

struct handlers;
struct node;

/* What the [pool NAME] sections ask for.  RC_BAD: a section is wrong, err names it.  *out NULL:
 * there are none. */
CHECKED enum rc handlers_create(struct node *n, struct handlers **out, struct err *err);
void handlers_destroy(struct handlers **h); /* NULL inside is fine, here and below */

void handlers_start(struct handlers *h); /* when the boss is there */
/* Nothing is in hand any more. */
void handlers_stop(struct handlers *h);

size_t handlers_count(const struct handlers *h);                  /* pools */
const char *handlers_name(const struct handlers *h, size_t crew); /* of the pool that this crew is */
/* The number of the crew that carries this kind out; 0: no pool does. */
size_t handlers_crew(const struct handlers *h, const char *kind);
/* Runs at once of this pool, however many its processes will say that they take. */
int64_t handlers_room(const struct handlers *h, size_t crew);
/* Runs at once, as far as is known before a process has said how many it takes. */
int64_t handlers_slots(const struct handlers *h);
/* Calls each() for every kind. */
void handlers_kinds(const struct handlers *h, void (*each)(void *ctx, const char *kind), void *ctx);

/* From the starter: a run for a pool, recorded as started. */
void handlers_take(struct handlers *h, struct run *r);
/* From the teller: what became of steps, a chain of their mails. */
void handlers_answer(struct handlers *h, struct step *first);
/* Replaces the processes one after the other, whose program may have changed.  Any thread. */
void handlers_renew(struct handlers *h);
int handlers_wake_fd(const struct handlers *h);
