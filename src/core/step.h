/* A step of a run under way, on its way to the database and back: the handlers' thread makes it, the teller
 * has it recorded, and it returns with the answer.  It belongs to the thread that has it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/mailbox.h"

#define STEP_NAME_MAX   200         /* bytes */
#define SIGNAL_NAME_MAX 100         /* bytes, as pgrab_internal.signal_name_fine() says */
#define STEP_RESULT_MAX (64 * 1024) /* bytes, as JSON */

/* As pgrab_internal.steps_record() says; the last is the node's. */
enum step_state { STEP_RECORDED, STEP_NONE, STEP_FULL, STEP_BAD, STEP_LOCKED, STEP_LOST, STEP_REFUSED };

struct saved;

struct step {
	struct mail mail; /* must be first */
	int64_t id, version, incarnation;
	char *name;
	char *result; /* JSON; NULL: is there one?  Then the one that is recorded, NULL: none */
	enum step_state state;
	char *why; /* STEP_REFUSED: what the server says */
	/* for the sender, to find whose it is */
	struct saved *saved; /* a checkpoint's; NULL: a handler's */
	size_t process;
	int64_t number;
};

void step_free(struct step *s);

/* Why the run cannot go on with this answer, one plain sentence; NULL: it can. */
const char *step_fault(const struct step *s);

static inline struct step *
step_of(struct mail *m)
{
	return (struct step *)m;
}

static inline struct step *
step_next(struct step *s)
{
	return step_of(s->mail.next);
}
