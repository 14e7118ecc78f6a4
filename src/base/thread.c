/* Threads and the gate.  The condition is on CLOCK_MONOTONIC, so that setting the wall clock wakes nobody and
 * keeps nobody asleep. */
#include "base/thread.h"

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
	    "check the limits on processes: ulimit -u, TasksMax=, pids.max");
	log_flush();
	_exit(1);
}

void
thread_join(pthread_t t)
{
	PTHREAD_OK(pthread_join(t, NULL));
}

void
one_thread_take(struct one_thread *o)
{
	*o = (struct one_thread){.thread = pthread_self(), .known = true};
}

void
one_thread_leave(struct one_thread *o)
{
	o->known = false;
}

bool
one_thread_is_me(const struct one_thread *o)
{
	return !o->known || pthread_equal(o->thread, pthread_self());
}

void
lock_init(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	PTHREAD_OK(pthread_mutexattr_init(&attr));
#ifndef NDEBUG
	PTHREAD_OK(pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK)); /* see ASSERT_LOCKED */
#endif
	PTHREAD_OK(pthread_mutex_init(lock, &attr));
	PTHREAD_OK(pthread_mutexattr_destroy(&attr));
}

pthread_mutex_t *
lock_enter(pthread_mutex_t *lock)
{
	PTHREAD_OK(pthread_mutex_lock(lock));
	return lock;
}

void
lock_leave(pthread_mutex_t **held)
{
	PTHREAD_OK(pthread_mutex_unlock(*held));
}

void
gate_init(struct gate *g)
{
	g->rung = g->stopped = false;
	lock_init(&g->lock);
	clock_cond_init(&g->cond);
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
	WITH_LOCK(&g->lock);
	*flag = true;
	PTHREAD_OK(pthread_cond_broadcast(&g->cond));
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
	WITH_LOCK(&g->lock);
	return g->stopped;
}

enum gate_wake
gate_wait(struct gate *g, int64_t until_us)
{
	enum gate_wake wake = GATE_TIME;

	WITH_LOCK(&g->lock);
	while (!g->stopped && !g->rung && clock_wait(&g->cond, &g->lock, until_us))
		;
	if (g->stopped)
		wake = GATE_STOPPED;
	else if (g->rung)
		wake = GATE_RUNG;
	g->rung = false;
	return wake;
}

bool
gate_pause(struct gate *g, int64_t until_us)
{
	WITH_LOCK(&g->lock);
	while (!g->stopped && clock_wait(&g->cond, &g->lock, until_us))
		;
	return !g->stopped;
}
