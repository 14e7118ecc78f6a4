/*
 * Clocks that a test turns by hand, for programs of one thread.  Time stands still
 * except for hand_turn and waits.
 *
 * A round begins with a wait: HAND_ROUND says how long it may last.  The clock jumps to its end, or to what
 * the part waits for, if that is earlier.  Any other wait, in the middle of a round, lasts as long as it
 * must: the others get their turn (hand.others) and the clock moves on by hand.step_us, until the event has
 * come or the time is over.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct hand {
	int64_t now_us;            /* clock_mono_us */
	int64_t boot_ahead_us;     /* clock_boot_us - clock_mono_us: how long the machine was suspended */
	int64_t until_us;          /* of the wait that the next round begins with */
	bool round;                /* that wait is to come */
	bool others_run;           /* they do not have a turn within their turn */
	int64_t step_us;           /* 10 ms */
	void (*others)(void *ctx); /* may be NULL */
	void *ctx;
};
extern struct hand hand;

void hand_start(void); /* at 1000 s */
void hand_turn(int64_t us);

#define HAND_ROUND(until, call) (hand.round = true, hand.until_us = (until), (call))
