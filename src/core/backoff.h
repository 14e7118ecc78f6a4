/* How long to wait before trying a server again: exponential with a cap and full jitter in the upper half, so
 * that three hundred nodes that lost one server do not come back in step.  (A task's own backoff is SQL:
 * retry_wait() in migrations/api/26_finish.sql.) */
#pragma once

#include <stdint.h>

struct backoff {
	int64_t first_us, max_us;
	unsigned tries;  /* failures since the last success */
	uint64_t random; /* state of the jitter; seed with anything */
};

void backoff_init(struct backoff *b, int64_t first_us, int64_t max_us, uint64_t seed);

/* The wait after one more failure: between half and all of min(first * 2^tries, max). */
int64_t backoff_next_us(struct backoff *b);
void backoff_reset(struct backoff *b); /* after a success */
