#include "node/signals.h"

#include <signal.h>

#include "base/clock.h"

static sigset_t
stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	return set;
}

static sigset_t
all_signals(void)
{
	sigset_t set = stop_signals();

	sigaddset(&set, SIGHUP);
	return set;
}

void
signals_block(void)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN}, by_default = {.sa_handler = SIG_DFL};
	sigset_t set = all_signals();

	sigaction(SIGPIPE, &ignore, NULL);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* nohup leaves it ignored, and a signal that is ignored is never pending. */
	sigaction(SIGHUP, &by_default, NULL);
}

bool
signals_wait(int64_t us)
{
	struct timespec ts = {.tv_sec = us / US_PER_S, .tv_nsec = us % US_PER_S * 1000};
	sigset_t set = stop_signals();

	/* Interrupted by another signal: a shorter wait, which no caller minds. */
	return sigtimedwait(&set, NULL, &ts) < 0;
}

void
signals_unblock(void)
{
	sigset_t set = all_signals();

	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
