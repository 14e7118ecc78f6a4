/* See deadline_call.h.  Whichever side is last cleans up: the caller joins a thread that is done, and
 * detaches one that is not. */
#include "db/deadline_call.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

struct deadline_call {
	void (*fn)(void *arg);
	void (*drop)(void *arg);
	void *arg;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* on CLOCK_MONOTONIC */
	bool done, left;        /* under lock */
};

static struct deadline_call *
create(void (*fn)(void *arg), void (*drop)(void *arg), void *arg)
{
	struct deadline_call *c = xcalloc(1, sizeof *c);

	c->fn = fn;
	c->drop = drop;
	c->arg = arg;
	lock_init(&c->lock);
	clock_cond_init(&c->changed);
	return c;
}

static void
destroy(struct deadline_call *c)
{
	PTHREAD_OK(pthread_cond_destroy(&c->changed));
	PTHREAD_OK(pthread_mutex_destroy(&c->lock));
	free(c);
}

static void *
call_main(void *arg)
{
	struct deadline_call *c = arg;
	bool left;

	c->fn(c->arg);
	PTHREAD_OK(pthread_mutex_lock(&c->lock));
	c->done = true;
	left = c->left;
	PTHREAD_OK(pthread_cond_signal(&c->changed));
	PTHREAD_OK(pthread_mutex_unlock(&c->lock));
	if (left) {
		c->drop(c->arg);
		destroy(c);
	}
	return NULL;
}

bool
deadline_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t until_us)
{
	struct deadline_call *c = create(fn, drop, arg);
	struct err err = {0};
	pthread_t thread;
	bool done;

	if (thread_try(&thread, "deadline_call", call_main, c, &err) != RC_OK) {
		log_warn("deadline_call", "error=\"%s\"", err.text);
		drop(arg);
		destroy(c);
		return false;
	}
	PTHREAD_OK(pthread_mutex_lock(&c->lock));
	while (!c->done && clock_wait(&c->changed, &c->lock, until_us))
		;
	done = c->done;
	c->left = !done;
	PTHREAD_OK(pthread_mutex_unlock(&c->lock));
	if (done) {
		thread_join(thread);
		destroy(c);
	} else {
		PTHREAD_OK(pthread_detach(thread));
	}
	return done;
}
