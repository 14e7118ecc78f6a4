/*
 * Random numbers for tests: the seed is printed, and PGRAB_TEST_SEED repeats it.
 */
#pragma once

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t random_state;

static inline void
random_start(void)
{
	const char *given = getenv("PGRAB_TEST_SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	random_state = given != NULL ? strtoull(given, NULL, 10)
				     : (uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec;
	/* Not to stdout: newer versions of cmocka say there which TAP it is, and meson wants that first. */
	fprintf(stderr, "PGRAB_TEST_SEED=%" PRIu64 "\n", random_state);
}

/* splitmix64; 0 <= result < n */
static inline unsigned
random_below(unsigned n)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return (unsigned)((z ^ (z >> 31)) % n);
}
