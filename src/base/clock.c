/* The three clocks.  Reading them cannot fail on a kernel that pgrab runs on, so nothing is checked. */
#include "base/clock.h"

#include <errno.h>
#include <limits.h>

#include "base/thread.h"

static int64_t
read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * US_PER_S + ts.tv_nsec / 1000;
}

static int64_t
machine_mono_us(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

static int64_t
machine_boot_us(void)
{
	return read_clock(CLOCK_BOOTTIME);
}

static int64_t
machine_wall_us(void)
{
	return read_clock(CLOCK_REALTIME);
}

static bool
machine_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us)
{
	struct timespec ts = clock_timespec(until_us);
	int rc = pthread_cond_timedwait(cond, lock, &ts);

	if (rc != 0 && rc != ETIMEDOUT) /* else the caller's loop would spin */
		thread_bug("pthread_cond_timedwait", __FILE__, __LINE__);
	return rc == 0;
}

static const struct clock_source machine = {
    .mono_us = machine_mono_us, .boot_us = machine_boot_us, .wall_us = machine_wall_us, .wait = machine_wait};
static const struct clock_source *source = &machine;

void
clock_use(const struct clock_source *other)
{
	source = other;
}

int64_t
clock_mono_us(void)
{
	return source->mono_us();
}

int64_t
clock_boot_us(void)
{
	return source->boot_us();
}

int64_t
clock_wall_us(void)
{
	return source->wall_us();
}

bool
clock_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us)
{
	return source->wait(cond, lock, until_us);
}

void
clock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	PTHREAD_OK(pthread_condattr_init(&attr));
	PTHREAD_OK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	PTHREAD_OK(pthread_cond_init(cond, &attr));
	PTHREAD_OK(pthread_condattr_destroy(&attr));
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
