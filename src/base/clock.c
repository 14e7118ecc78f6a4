/*
 * The three clocks.  Reading them can not fail on a kernel that pgrab runs on, so nothing is checked.
 */
#include "base/clock.h"

#include <limits.h>

static int64_t
read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

int64_t
clock_mono_us(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t
clock_boot_us(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

int64_t
clock_wall_us(void)
{
	return read_clock(CLOCK_REALTIME);
}

struct timespec
clock_timespec(int64_t us)
{
	struct timespec ts;
	int64_t far = INT64_C(4000000000); /* seconds: some 126 years of uptime */

	if (us < 0)
		us = 0;
	ts.tv_sec = (time_t)(us / US_PER_S > far ? far : us / US_PER_S);
	ts.tv_nsec = (long)(us % US_PER_S * 1000);
	return ts;
}

int
clock_poll_ms(int64_t now_us, int64_t until_us)
{
	int64_t ms;

	if (until_us == CLOCK_NEVER)
		return -1;
	if (until_us <= now_us)
		return 0;
	ms = (until_us - now_us - 1) / US_PER_MS + 1; /* rounded up: waking early would spin */
	return ms > INT_MAX ? INT_MAX : (int)ms;
}
