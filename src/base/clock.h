/*
 * The three clocks, in microseconds.  Which one to use is a rule, not a matter of taste:
 *   mono  waits and measured durations (stands still while the machine is suspended);
 *   boot  leases: like mono, but counts suspension, and means the same in every process of this machine;
 *   wall  display only.  Nothing is ever decided by it: plans are made on the database's clock.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define US_PER_MS   INT64_C(1000)
#define US_PER_S    INT64_C(1000000)
#define CLOCK_NEVER INT64_MAX

int64_t clock_mono_us(void);
int64_t clock_boot_us(void);
int64_t clock_wall_us(void); /* since 1970-01-01 UTC */

/* The absolute time of clock_mono_us as CLOCK_MONOTONIC has it; CLOCK_NEVER gives a far future. */
struct timespec clock_timespec(int64_t us);

/* A condition for clock_wait. */
void clock_cond_init(pthread_cond_t *cond);

/* Waits on cond, lock held, until it is signalled, or until clock_mono_us reaches until_us: then false.  May
 * wake early, so the caller checks its own condition again. */
bool clock_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us);

/* Where time comes from: the machine; or a test, which moves the clocks by hand and plays the
 * other threads while one waits. */
struct clock_source {
	int64_t (*mono_us)(void), (*boot_us)(void), (*wall_us)(void);
	bool (*wait)(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t until_us);
};
void clock_use(const struct clock_source *source); /* borrowed; call it before any other thread starts */

/* Milliseconds from now until `until_us` for poll(2): 0 if past, -1 for CLOCK_NEVER, rounded up. */
int clock_poll_ms(int64_t now_us, int64_t until_us);
