/*
 * Threads and the gate.  The condition is on CLOCK_MONOTONIC, so that setting the wall clock wakes nobody and
 * keeps nobody asleep.
 */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"

struct birth {
	const char *name;
	void *(*fn)(void *);
	void *arg;
};

void
thread_bug(const char *call, const char *file, int line)
{
	log_error("thread_bug", "call=\"%s\" at=%s:%d", call, file, line);
	log_flush();
	abort();
}

static void *
born(void *arg)
{
	struct birth b = *(struct birth *)arg;

	free(arg);
	log_thread(b.name);
	pthread_setname_np(pthread_self(), b.name);
	return b.fn(b.arg);
}

enum rc
thread_try(pthread_t *t, const char *name, void *(*fn)(void *), void *arg, struct err *err)
{
	struct birth *b = xmalloc(sizeof *b);
	sigset_t all, old;
	int error;

	*b = (struct birth){name, fn, arg};
	sigfillset(&all);
	PTHREAD_OK(pthread_sigmask(SIG_SETMASK, &all, &old));
	error = pthread_create(t, NULL, born, b);
	PTHREAD_OK(pthread_sigmask(SIG_SETMASK, &old, NULL));
	if (error == 0)
		return RC_OK;
	free(b);
	return err_set(err, RC_AGAIN, "could not start the thread \"%s\": %s", name, strerrordesc_np(error));
}

void
thread_start(pthread_t *t, const char *name, void *(*fn)(void *), void *arg)
{
	struct err err = {0};

	if (thread_try(t, name, fn, arg, &err) == RC_OK)
		return;
	log_error("thread_start", "error=\"%s\" hint=\"%s\"", err.text,
	    "look at the limits of processes: ulimit -u, TasksMax=, pids.max");
	log_flush();
	_exit(1);
}

void
thread_join(pthread_t t)
{
	PTHREAD_OK(pthread_join(t, NULL));
}

void
gate_init(struct gate *g)
{
	pthread_condattr_t attr;

	g->rung = g->stopped = false;
	PTHREAD_OK(pthread_mutex_init(&g->lock, NULL));
	PTHREAD_OK(pthread_condattr_init(&attr));
	PTHREAD_OK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	PTHREAD_OK(pthread_cond_init(&g->cond, &attr));
	PTHREAD_OK(pthread_condattr_destroy(&attr));
}

void
gate_fini(struct gate *g)
{
	PTHREAD_OK(pthread_cond_destroy(&g->cond));
	PTHREAD_OK(pthread_mutex_destroy(&g->lock));
}

static void
raise_flag(struct gate *g, bool *flag)
{
	PTHREAD_OK(pthread_mutex_lock(&g->lock));
	*flag = true;
	PTHREAD_OK(pthread_cond_broadcast(&g->cond));
	PTHREAD_OK(pthread_mutex_unlock(&g->lock));
}

void
gate_ring(struct gate *g)
{
	raise_flag(g, &g->rung);
}

void
gate_stop(struct gate *g)
{
	raise_flag(g, &g->stopped);
}

bool
gate_stopped(struct gate *g)
{
	bool stopped;

	PTHREAD_OK(pthread_mutex_lock(&g->lock));
	stopped = g->stopped;
	PTHREAD_OK(pthread_mutex_unlock(&g->lock));
	return stopped;
}

/* Lock held, released while asleep.  False: the time has passed. */
static bool
sleep_until(struct gate *g, int64_t until_us)
{
	struct timespec ts = clock_timespec(until_us);
	int rc = pthread_cond_timedwait(&g->cond, &g->lock, &ts);

	if (rc != 0 && rc != ETIMEDOUT)
		thread_bug(
		    "pthread_cond_timedwait", __FILE__, __LINE__); /* else the caller's loop would spin */
	return rc == 0;
}

enum gate_wake
gate_wait(struct gate *g, int64_t until_us)
{
	enum gate_wake wake = GATE_TIME;

	PTHREAD_OK(pthread_mutex_lock(&g->lock));
	while (!g->stopped && !g->rung && sleep_until(g, until_us))
		;
	if (g->stopped)
		wake = GATE_STOPPED;
	else if (g->rung)
		wake = GATE_RUNG;
	g->rung = false;
	PTHREAD_OK(pthread_mutex_unlock(&g->lock));
	return wake;
}

bool
gate_pause(struct gate *g, int64_t until_us)
{
	bool stopped;

	PTHREAD_OK(pthread_mutex_lock(&g->lock));
	while (!g->stopped && sleep_until(g, until_us))
		;
	stopped = g->stopped;
	PTHREAD_OK(pthread_mutex_unlock(&g->lock));
	return !stopped;
}
