/* Progress as a run prints it: a line of its own, `pgrab: progress 42 copying files`.  The number is a
 * percentage, 0 to 100, with or without decimals and a % sign; number or text may be missing, not both. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define PROGRESS_TEXT 200 /* bytes of text that are kept */

struct progress {
	double percent; /* negative: unknown */
	char text[PROGRESS_TEXT + 1];
};

/* Sets it from an executor's call; the text is made printable, on one line.  NULL is "". */
void progress_set(struct progress *p, double percent, const char *text);

/* Finds such lines in output that comes in pieces.  Embedded by value, all-zero is a fresh one. */
struct progress_reader {
	char line[256]; /* the line so far, if it may become one; longer ones are cut */
	size_t len;
	bool other; /* this line is not one */
};

/* True: one or more were complete, *out is the last of them. */
bool progress_read(struct progress_reader *r, const char *bytes, size_t n, struct progress *out);
