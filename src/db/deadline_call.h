/* A call that may block for ever (a name lookup, PQcancel), given a deadline: it is made in a thread of its
 * own, and left to that thread when the time is up. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Calls fn(arg) and waits for it until until_us (clock_mono_us).  True: it has returned, arg is the caller's.
 * False: it has not; arg now belongs to the thread, which calls drop(arg) whenever fn returns.  So arg must
 * not hold on to anything of the caller's.  If no thread can be started it is as if the time had passed:
 * drop(arg) has been called. */
bool deadline_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t until_us);
