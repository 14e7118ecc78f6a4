#include "node/early.h"

#include <signal.h>

#include "base/clock.h"

static sigset_t
stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

void
early_block(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	sigset_t set = stop_signals();

	sigaction(SIGPIPE, &ignore, NULL);
	sigaction(SIGHUP, &ignore, NULL); /* the control loop says what it means */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

bool
early_wait(int64_t us)
{
	struct timespec ts = {.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
	sigset_t set = stop_signals();

	/* Interrupted by another signal: a shorter wait, which every caller can stand. */
	return sigtimedwait(&set, NULL, &ts) < 0;
}

void
early_unblock(void)
{
	sigset_t set = stop_signals();

	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
