#include "core/backoff.h"

/* xorshift64*, Vigna 2016: plenty for jitter. */
static uint64_t
next_random(struct backoff *b)
{
	b->random ^= b->random >> 12;
	b->random ^= b->random << 25;
	b->random ^= b->random >> 27;
	return b->random * UINT64_C(2685821657736338717);
}

void
backoff_init(struct backoff *b, int64_t first_us, int64_t max_us, uint64_t seed)
{
	b->first_us = first_us;
	b->max_us = max_us;
	b->tries = 0;
	b->random = seed | 1;
}

int64_t
backoff_next_us(struct backoff *b)
{
	int64_t wait = b->first_us;

	for (unsigned i = 0; i < b->tries && wait < b->max_us; i++)
		wait *= 2;
	if (wait > b->max_us)
		wait = b->max_us;
	b->tries++;
	return wait / 2 + (int64_t)(next_random(b) % (uint64_t)(wait / 2 + 1));
}

void
backoff_reset(struct backoff *b)
{
	b->tries = 0;
}
