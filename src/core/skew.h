/* The database's clock against our monotonic one.  A reading is made between the question and its answer,
 * so each gives a lower and an upper bound of the difference; we use the lower one, so that nothing starts
 * early.  The database's clock may be set at any time. */
#pragma once

#include <stdint.h>

#define SKEW_SAMPLES 8

struct skew {
	int64_t sample[SKEW_SAMPLES]; /* database - monotonic, lower bounds of the last readings */
	unsigned n;
};

/* The database said db_us (since 1970) between sent_us and got_us (clock_mono_us).  Returns the best lower
 * bound; readings from before a clock was set back are forgotten. */
int64_t skew_note(struct skew *s, int64_t db_us, int64_t sent_us, int64_t got_us);

/* `ahead` if it agrees with this reading; else a clock has been set since, and it is
 * this reading's lower bound. */
int64_t skew_within(int64_t ahead, int64_t db_us, int64_t sent_us, int64_t got_us);
