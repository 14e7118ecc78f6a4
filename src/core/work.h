/*
 * How a node's runs went of late, kind by kind: evidence for strategies (pgrab_work in pgrab/strategy.h).
 *
 * Each further run of a kind takes part of the weight of those before it, and all fade with time.  A node
 * keeps the kinds it has run most of; it sends them as a text with its heartbeats.
 *
 * Pure: no I/O, no threads, no clock.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "pgrab/strategy.h"

#define WORK_KINDS 8
#define WORK_RUNS  16  /* so many of the last runs tell how many succeed, */
#define WORK_TIMED 256 /* and so many how long they take: lengths differ more than outcomes */

struct work_kind {
	char kind[33];
	double runs, succeeded, timed;
	double log_us; /* sum over timed, to base 2 */
};

struct work {
	size_t n;
	struct work_kind item[WORK_KINDS];
};

void work_note(struct work *w, const char *kind, bool succeeded, int64_t took_us);
/* All that is known counts for so much of itself, 0..1. */
void work_fade(struct work *w, double keep);

/* KIND RUNS SUCCEEDED TIMED TYPICAL_US and so on, separated by blanks; the counts are hundredths. */
void work_print(const struct work *w, struct buf *out);
/* What others printed; NULL: nothing.  What does not parse is left out. */
void work_parse(struct work *w, const char *text);

/* Fills out[WORK_KINDS]; returns how many.  The kinds are borrowed. */
size_t work_view(const struct work *w, struct pgrab_work *out);
