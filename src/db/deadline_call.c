/* See aside.h.  Who comes last cleans up: the caller joins a thread that is done; one that is not
 * is detached and on its own. */
#include "db/deadline_call.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

struct aside {
	void (*fn)(void *arg);
	void (*drop)(void *arg);
	void *arg;

	pthread_mutex_t lock;
	pthread_cond_t changed; /* on CLOCK_MONOTONIC */
	bool done, left;        /* under lock */
};

static struct aside *
create(void (*fn)(void *arg), void (*drop)(void *arg), void *arg)
{
	struct aside *a = xcalloc(1, sizeof *a);

	a->fn = fn;
	a->drop = drop;
	a->arg = arg;
	lock_init(&a->lock);
	clock_cond_init(&a->changed);
	return a;
}

static void
destroy(struct aside *a)
{
	PTHREAD_OK(pthread_cond_destroy(&a->changed));
	PTHREAD_OK(pthread_mutex_destroy(&a->lock));
	free(a);
}

static void *
aside_main(void *arg)
{
	struct aside *a = arg;
	bool left;

	a->fn(a->arg);
	PTHREAD_OK(pthread_mutex_lock(&a->lock));
	a->done = true;
	left = a->left;
	PTHREAD_OK(pthread_cond_signal(&a->changed));
	PTHREAD_OK(pthread_mutex_unlock(&a->lock));
	if (left) {
		a->drop(a->arg);
		destroy(a);
	}
	return NULL;
}

bool
deadline_call(void (*fn)(void *arg), void (*drop)(void *arg), void *arg, int64_t until_us)
{
	struct aside *a = create(fn, drop, arg);
	struct err err = {0};
	pthread_t thread;
	bool done;

	if (thread_try(&thread, "aside", aside_main, a, &err) != RC_OK) {
		log_warn("aside", "error=\"%s\"", err.text);
		drop(arg);
		destroy(a);
		return false;
	}
	PTHREAD_OK(pthread_mutex_lock(&a->lock));
	while (!a->done && clock_wait(&a->changed, &a->lock, until_us))
		;
	done = a->done;
	a->left = !done;
	PTHREAD_OK(pthread_mutex_unlock(&a->lock));
	if (done) {
		thread_join(thread);
		destroy(a);
	} else {
		PTHREAD_OK(pthread_detach(thread));
	}
	return done;
}
