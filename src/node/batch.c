#include "node/batch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"

/* By id, the lock order.  A task that was edited between two claims may be in one batch twice. */
static int
by_fence(const void *a, const void *b)
{
	const struct run *x = *(struct run *const *)a, *y = *(struct run *const *)b;

	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return x->version < y->version ? -1 : x->version > y->version;
}

void
batch_sort(struct run **batch, size_t n)
{
	qsort(batch, n, sizeof *batch, by_fence);
}

bool
batch_is_locked(struct run *const *batch, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (batch[i]->place.locked)
			return true;
	}
	return false;
}

size_t
batch_take(struct run **chain, struct run **batch, size_t max)
{
	size_t n = 0;

	while (*chain != NULL && n < max && (n == 0 || (*chain)->incarnation == batch[0]->incarnation)) {
		struct run *r = *chain;

		*chain = run_next(r);
		batch[n++] = r;
	}
	batch_sort(batch, n);
	return n;
}

bool
batch_pause(struct backoff *b, struct gate *stop_now, enum rc rc, const char *what, const struct err *err)
{
	int64_t wait = backoff_next_us(b);

	/* What a person should know is logged by health.h, once. */
	log_line(rc == RC_BAD ? LOG_ERROR : LOG_DEBUG, "db_call", "what=%s answer=%s tries=%u error=\"%s\"",
	    what, rc_name(rc), b->tries, err->text);
	/* Even when it is hopeless: the server that refused this will refuse the next, which
	 * should not come at once. */
	return gate_wait(stop_now, clock_mono_us() + wait) != GATE_STOPPED && rc != RC_BAD;
}

void
waiting_add(struct waiting *w, struct run *chain)
{
	if (chain == NULL)
		return;
	if (w->first == NULL)
		w->first = chain;
	else
		w->last->note.mail.next = &chain->note.mail;
	for (; chain != NULL; chain = run_next(chain)) {
		w->last = chain;
		w->count++;
	}
}

void
waiting_add_one(struct waiting *w, struct run *r)
{
	waiting_add(w, run_chain(r, NULL));
}

struct run *
waiting_take(struct waiting *w)
{
	struct run *chain = w->first;

	w->first = w->last = NULL;
	w->count = 0;
	return chain;
}

bool
batch_get_ready(const struct store *store, struct db *db, int64_t *used_us)
{
	struct err err;
	bool there;

	db_drop_dead(db);
	there = db_conn(db) != NULL;
	*used_us = clock_mono_us();
	if (store->connect(db, &err) == RC_OK)
		return !there;
	log_debug("get_ready", "error=\"%s\"", err.text); /* what comes will meet it, too */
	return false;
}

int64_t
batch_wait_us(struct db *db, int64_t used_us, int64_t until_us)
{
	int64_t idle_us = used_us + IDLE_US;

	return db_conn(db) != NULL && idle_us < until_us ? idle_us : until_us;
}

void
batch_close_idle(struct db *db, int64_t used_us)
{
	if (db_conn(db) != NULL && clock_mono_us() >= used_us + IDLE_US)
		db_disconnect(db);
}
