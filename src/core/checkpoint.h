/* A checkpoint as a run prints it: a line of its own, `pgrab: checkpoint TEXT`.  The next attempt of the fire
 * is given the last one. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define CHECKPOINT_STEP "checkpoint" /* the name of its step; the last of this name counts */
#define CHECKPOINT_MAX  (64 * 1024)  /* bytes of text */

/* Finds such lines in output that comes in pieces.  Embedded by value, all-zero is a fresh one. */
struct checkpoint_reader {
	size_t seen;     /* bytes of the line that are as they should be */
	bool other;      /* this line is not one */
	struct buf text; /* the line's so far, at most one byte more than counts */
};

/* True: one or more were complete, *text is the last of them; the caller frees it.  NULL: it is too long. */
bool checkpoint_read(struct checkpoint_reader *r, const char *bytes, size_t n, char **text);
void checkpoint_fini(struct checkpoint_reader *r);
