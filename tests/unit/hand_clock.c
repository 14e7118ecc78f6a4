/* See hand_clock.h. */
#include "hand_clock.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

struct hand hand;

static int64_t
mono_us(void)
{
	return hand.now_us;
}

static int64_t
boot_us(void)
{
	return hand.now_us + hand.boot_ahead_us;
}

static int64_t
wall_us(void)
{
	return INT64_C(1800000000) * US_PER_S + hand.now_us;
}

static int64_t
sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool
wait_by_hand(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us)
{
	if (hand.round) {
		int64_t to = sooner(until_us, hand.until_us);

		hand.round = false;
		hand.now_us = to > hand.now_us ? to : hand.now_us;
		return false;
	}
	if (hand.others == NULL && until_us == CLOCK_NEVER)
		abort(); /* nobody will ever come */
	if (hand.others != NULL && !hand.others_run) {
		PTHREAD_OK(pthread_mutex_unlock(lock));
		hand.others_run = true;
		hand.others(hand.ctx);
		hand.others_run = false;
		PTHREAD_OK(pthread_mutex_lock(lock));
	}
	if (until_us > hand.now_us)
		hand.now_us = hand.others == NULL ? until_us : sooner(until_us, hand.now_us + hand.step_us);
	return hand.now_us < until_us;
}

void
hand_start(void)
{
	static const struct clock_source by_hand = {
	    .mono_us = mono_us, .boot_us = boot_us, .wall_us = wall_us, .wait = wait_by_hand};

	hand = (struct hand){.now_us = 1000 * US_PER_S, .step_us = 10 * US_PER_MS};
	clock_use(&by_hand);
}

void
hand_turn(int64_t us)
{
	hand.now_us += us;
}
