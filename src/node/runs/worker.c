/* Worker: takes a unit from the run queue, executes it, hands the results to the finisher and tells the boss
 * that it is free.  It owns the run from the queue to the finisher; only run->stop is touched from outside.
 * The lease is checked right before anything is executed. */
#include "node/runs/worker.h"

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"
#include "node/batch.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/runs/group.h"
#include "node/runs/hosting.h"
#include "node/runs/live.h"
#include "node/runs/outcome.h"
#include "node/runs/refuse.h"

struct worker {
	struct node *node; /* borrowed */
	pthread_t thread;
	/* owned by the thread */
	void **state; /* per executor of the set; NULL until first needed */
};

struct workers {
	struct node *node; /* borrowed */
	struct worker **worker;
	size_t count; /* threads; more than node->workers after these were reduced */
};

static size_t
executor_index(const struct exec_set *set, const struct pgrab_executor *ex)
{
	size_t i = 0;

	while (exec_set_at(set, i) != ex)
		i++;
	return i;
}

static bool
is_plugin(const struct pgrab_executor *ex)
{
	for (const struct pgrab_executor *const *b = exec_builtin; *b != NULL; b++) {
		if (*b == ex)
			return false;
	}
	return true;
}

/* NULL: it cannot be run here, the result says why; or it needs none. */
static void *
open_state(struct worker *w, const struct pgrab_executor *ex, struct pgrab_result *res)
{
	size_t i = executor_index(w->node->execs, ex);

	if (w->state[i] == NULL && ex->open != NULL)
		w->state[i] =
		    ex->open(is_plugin(ex) ? NULL : &w->node->exec_env, res->error, sizeof res->error);
	return w->state[i];
}

static void
execute(struct worker *w, struct run *r, const struct pgrab_executor *ex)
{
	struct hosting h;
	struct live live = {0};
	struct pgrab_result res = {.size = sizeof res};
	enum pgrab_stop stop;
	void *state;

	hosting_make(&h, w->node, r, &live);
	live_begin(&live, r->stop.fd >= 0 ? &w->node->lives : NULL, r);
	state = open_state(w, ex, &res);
	if (state != NULL || ex->open == NULL)
		ex->run(state, &h.view, &h.host, &res);
	r->end.at_us = clock_mono_us();
	stop = h.host.stop(&h); /* one that comes while a checkpoint is recorded has not ended it */
	r->end.output = live_end(&live, &r->end.output_truncated, &r->end.cost.output_bytes);
	outcome_take(r, stop, &res);
}

/* The boss hands a run over LEAD_US early; but none is begun early.  A stop ends the wait,
 * and the executor sees it. */
static void
await_due(const struct run *r)
{
	int64_t left = r->due_mono_us - clock_mono_us();
	struct pollfd p = {.fd = r->stop.fd, .events = POLLIN};

	if (left > 0 && left < US_PER_S) { /* a few milliseconds; or it was due a thousand years ago */
		struct timespec ts = {.tv_nsec = left * 1000};

		(void)ppoll(&p, 1, &ts, NULL);
	}
}

static void
carry_out(struct worker *w, struct run *r)
{
	struct node *n = w->node;
	const struct pgrab_executor *ex = exec_set_find(n->execs, r->task.kind);

	await_due(r);
	if (!run_begins(n, r, ex != NULL))
		return;
	if (r->stop.fd >= 0)
		boss_begun(n->boss, r);
	execute(w, r, ex);
	atomic_fetch_sub(&n->running[r->crew], r->need.slots);
	achieved_count(n, r);
	achieved_note(n, r);
}

/* Do executors keep something between runs, such as a connection?  Plug-ins keep it as
 * long as the worker lives. */
static bool
any_open(const struct worker *w)
{
	for (size_t i = 0; i < exec_set_count(w->node->execs); i++) {
		if (w->state[i] != NULL && !is_plugin(exec_set_at(w->node->execs, i)))
			return true;
	}
	return false;
}

static void
close_open(struct worker *w, bool plugins)
{
	for (size_t i = 0; i < exec_set_count(w->node->execs); i++) {
		const struct pgrab_executor *ex = exec_set_at(w->node->execs, i);

		if (w->state[i] == NULL || (is_plugin(ex) && !plugins))
			continue;
		if (ex->close != NULL)
			ex->close(w->state[i]);
		w->state[i] = NULL;
	}
}

/* One unit. */
static void
work(struct worker *w, struct run *first)
{
	int64_t ended = 0;

	if (first->place.grouped > 1) {
		struct pgrab_result ignored = {.size = sizeof ignored};

		group_work(w->node, open_state(w, &exec_sql, &ignored), first);
		return;
	}
	for (struct run *r = first; r != NULL; r = r->place.unit, ended++) {
		carry_out(w, r);
		r->note.mail.next = r->place.unit == NULL ? NULL : &r->place.unit->note.mail;
	}
	atomic_fetch_add(&w->node->ended, ended);
	/* First free, then finished: the boss must not forget a run whose note is still under way. */
	boss_idle(w->node->boss, first);
	mailbox_push_chain(w->node->finish_queue, &first->note.mail);
}

bool
worker_round(struct worker *w)
{
	int64_t until = any_open(w) ? clock_mono_us() + IDLE_US : CLOCK_NEVER;
	struct mail *m;
	enum rc rc = mailbox_pop_until(w->node->run_queue, until, &m);

	if (rc == RC_OK)
		work(w, run_of(m));
	else
		close_open(w, rc == RC_CLOSED);
	return rc != RC_CLOSED;
}

static void *
worker_main(void *arg)
{
	struct worker *w = arg;

	while (worker_round(w))
		;
	return NULL;
}

struct worker *
worker_create(struct node *n)
{
	struct worker *w = xcalloc(1, sizeof *w);

	w->node = n;
	w->state = xcalloc(exec_set_count(n->execs) + 1, sizeof(void *));
	return w;
}

void
worker_destroy(struct worker **w)
{
	free((*w)->state);
	free(*w);
	*w = NULL;
}

static enum rc
add_pool(struct workers *w, struct err *err)
{
	struct worker *one = worker_create(w->node);
	enum rc rc = thread_try(&one->thread, "worker", worker_main, one, err);

	if (rc != RC_OK) {
		worker_destroy(&one);
		return rc;
	}
	w->worker = xrealloc(w->worker, (w->count + 1) * sizeof *w->worker);
	w->worker[w->count++] = one;
	return RC_OK;
}

struct workers *
workers_start(struct node *n)
{
	struct workers *w = xcalloc(1, sizeof *w);
	struct err err = {0};

	w->node = n;
	while (w->count < (size_t)n->set->workers) {
		if (add_pool(w, &err) != RC_OK)
			abort(); /* as for every thread of the start */
	}
	return w;
}

enum rc
workers_resize(struct workers *w, int64_t count, struct err *err)
{
	struct node *n = w->node;
	int64_t before = atomic_load(&n->workers);
	enum rc rc = RC_OK;

	while (rc == RC_OK && w->count < (size_t)count)
		rc = add_pool(w, err);
	if (rc != RC_OK)
		return rc;
	atomic_store(&n->workers, count);
	boss_slots(n->boss, 0, count - before);
	return RC_OK;
}

void
workers_stop(struct workers **w)
{
	for (size_t i = 0; i < (*w)->count; i++)
		thread_join((*w)->worker[i]->thread);
	for (size_t i = 0; i < (*w)->count; i++)
		worker_destroy(&(*w)->worker[i]);
	free((*w)->worker);
	free(*w);
	*w = NULL;
}
