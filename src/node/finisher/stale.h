/*
 * Finishes that the fence refused: each is counted, and logged in one line a second.  Owned
 * by the finisher's thread.
 */
#pragma once

#include <stdint.h>

struct node;
struct run;

/* All-zero: none. */
struct stale {
	uint64_t count; /* not logged yet */
	int64_t id, next_us;
};

void stale_add(struct stale *s, struct node *n, const struct run *r);
void stale_say(struct stale *s); /* if there is something, and it is time */
