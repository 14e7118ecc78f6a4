/* Handlers: boss, starter -> pools -> finisher; see node/runs/carrier.h. */
#include "node/handlers/private.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "handler/protocol.h"
#include "node/boss/boss.h"
#include "node/runs/live.h"
#include "node/runs/teller.h"

static bool
host_may_start(void *ctx)
{
	const struct handlers *h = ctx;

	return node_may_act(h->node, atomic_load(&h->node->incarnation), clock_boot_us());
}

static enum pgrab_stop
host_stop(void *ctx, const struct run *r)
{
	(void)ctx;
	return (enum pgrab_stop)atomic_load(&r->stop.why);
}

static bool
host_begin(void *ctx, struct run *r)
{
	return carrier_begin(&((struct handlers *)ctx)->carrier, r);
}

static void
host_print(void *ctx, struct run *r, const char *text, size_t n)
{
	live_print(r->live, text, n);
}

static void
host_progress(void *ctx, struct run *r, double percent, const char *text)
{
	live_progress(r->live, percent, text);
}

static void
host_waits_for(void *ctx, struct run *r, const char *text)
{
	live_waits_for(r->live, text);
}

static void
host_step(void *ctx, struct run *r, struct step *s)
{
	struct handlers *h = ctx;

	atomic_store(&r->sign_us, clock_mono_us());
	teller_step(h->node->lives.teller, s);
}

static void
host_end(void *ctx, struct run *r, enum outcome outcome, const struct pgrab_result *result)
{
	carrier_end(&((struct handlers *)ctx)->carrier, r, outcome, result);
}

static void
host_slots(void *ctx, size_t pool, int more)
{
	struct handlers *h = ctx;

	boss_slots(h->node->boss, pool + 1, more);
}

static void
host_changed(void *ctx)
{
	((struct handlers *)ctx)->changed = true;
}

static void
host_flush(void *ctx)
{
	struct handlers *h = ctx;

	carrier_flush(&h->carrier);
	if (h->changed)
		handlers_note_news(h);
	h->changed = false;
}

static void *
handlers_main(void *arg)
{
	struct handlers *h = arg;

	pools_run(h->pools);
	return NULL;
}

static struct pool_host
make_host(struct handlers *h)
{
	return (struct pool_host){.ctx = h,
	    .keeper = h->node->keeper,
	    .kill_grace_us = h->node->set->kill_grace_us,
	    .may_start = host_may_start,
	    .begin = host_begin,
	    .stop = host_stop,
	    .end = host_end,
	    .print = host_print,
	    .progress = host_progress,
	    .waits_for = host_waits_for,
	    .step = host_step,
	    .slots = host_slots,
	    .changed = host_changed,
	    .flush = host_flush};
}

enum rc
handlers_create(struct node *n, struct handlers **out, struct err *err)
{
	size_t count = n->set->n_handlers;
	struct handlers *h;
	struct pool_host host;
	enum rc rc = RC_OK;

	*out = NULL;
	if (count == 0)
		return RC_OK;
	h = xcalloc(1, sizeof *h);
	h->node = n;
	carrier_init(&h->carrier, n);
	h->setup = xcalloc(count, sizeof *h->setup);
	h->section = xcalloc(count, sizeof *h->section);
	h->news = xcalloc(count, sizeof *h->news);
	gate_init(&h->gate);
	PTHREAD_OK(pthread_mutex_init(&h->lock, NULL));
	for (size_t i = 0; rc == RC_OK && i < count; i++)
		rc = handlers_section(h, i, err);
	host = make_host(h);
	if (rc == RC_OK)
		h->pools = pools_create(h->setup, h->n, &host);
	*out = h;
	if (rc != RC_OK)
		handlers_destroy(out);
	return rc;
}

void
handlers_destroy(struct handlers **hp)
{
	struct handlers *h = *hp;

	if (h == NULL)
		return;
	pools_destroy(&h->pools);
	handlers_announce_fini(h);
	for (size_t i = 0; i < h->n; i++) {
		surroundings_fini(&h->setup[i].around);
		free(h->section[i].argv);
		free(h->section[i].kinds);
	}
	gate_fini(&h->gate);
	PTHREAD_OK(pthread_mutex_destroy(&h->lock));
	free(h->setup);
	free(h->section);
	free(h);
	*hp = NULL;
}

void
handlers_start(struct handlers *h)
{
	if (h == NULL)
		return;
	h->started = true;
	handlers_note_news(h);
	thread_start(&h->announcer, "announcer", handlers_announce_main, h);
	thread_start(&h->thread, "handlers", handlers_main, h);
}

void
handlers_stop(struct handlers *h)
{
	if (h == NULL || !h->started)
		return;
	gate_stop(&h->gate);
	pools_quit(h->pools);
	thread_join(h->thread);
	thread_join(h->announcer);
}

size_t
handlers_count(const struct handlers *h)
{
	return h == NULL ? 0 : h->n;
}

const char *
handlers_name(const struct handlers *h, size_t crew)
{
	return h->setup[crew - 1].name;
}

size_t
handlers_crew(const struct handlers *h, const char *kind)
{
	for (size_t i = 0; h != NULL && kind != NULL && i < h->n; i++) {
		for (const char *const *k = h->setup[i].kinds; *k != NULL; k++) {
			if (strcmp(*k, kind) == 0)
				return i + 1;
		}
	}
	return 0;
}

int64_t
handlers_room(const struct handlers *h, size_t crew)
{
	const struct pool_setup *s = &h->setup[crew - 1];

	return (int64_t)s->processes * (s->at_once > 0 ? s->at_once : PROTOCOL_AT_ONCE);
}

int64_t
handlers_slots(const struct handlers *h)
{
	int64_t n = 0;

	for (size_t i = 0; h != NULL && i < h->n; i++)
		n += (int64_t)h->setup[i].processes * (h->setup[i].at_once > 0 ? h->setup[i].at_once : 1);
	return n;
}

void
handlers_kinds(const struct handlers *h, void (*each)(void *ctx, const char *kind), void *ctx)
{
	for (size_t i = 0; h != NULL && i < h->n; i++) {
		for (const char *const *k = h->setup[i].kinds; *k != NULL; k++)
			each(ctx, *k);
	}
}

void
handlers_take(struct handlers *h, struct run *r)
{
	pools_submit(h->pools, r);
}

void
handlers_answer(struct handlers *h, struct step *first)
{
	pools_answer(h->pools, first);
}

void
handlers_renew(struct handlers *h)
{
	if (h != NULL)
		pools_renew(h->pools);
}

int
handlers_wake_fd(const struct handlers *h)
{
	return pools_wake_fd(h->pools);
}
