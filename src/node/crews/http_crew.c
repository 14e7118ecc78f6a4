/*
 * The http crew: boss, starter -> http -> finisher; see node/runs/carrier.h.
 *
 * What it is given beyond its slots, or ahead of its time, waits in a line.  Slots free up quickly, or the
 * boss had given nothing ahead; when they do not, because servers have become slow, what has waited for a
 * moment goes back as if it had not been started.
 */
#include "node/crews/http_crew.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "exec/http.h"
#include "exec/result.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/runs/carrier.h"
#include "node/runs/hosting.h"

#define SURPLUS_US (250 * US_PER_MS) /* a started run waits no longer than this for a slot */

struct http_crew {
	struct node *node; /* borrowed */
	pthread_t thread;
	bool started;
	struct mailbox *inbox; /* boss, starter -> the thread */
	int wake_fd;
	_Atomic bool woken; /* wake_fd has been written to for the inbox */
	_Atomic bool quit;
	/* owned by the thread */
	struct carrier carrier;
	struct http *http;
	struct mail *line; /* what waits, the first first */
	struct mail **line_end;
	int64_t under_way; /* slots in use */
};

/* One request. */
struct flight {
	struct hosting hosting; /* must be first: the host's ctx */
	struct http_crew *crew;
};

static void
on_ended(void *ctx, const struct pgrab_result *result)
{
	struct flight *f = ctx;
	struct http_crew *c = f->crew;

	c->under_way -= f->hosting.run->need.slots;
	carrier_end(&c->carrier, f->hosting.run,
	    f->hosting.view.proof != NULL ? OUTCOME_AWAITS : OUTCOME_NONE, result);
	free(f);
}

static void
begin(struct http_crew *c, struct run *r)
{
	struct flight *f;

	if (!carrier_begin(&c->carrier, r))
		return;
	f = xcalloc(1, sizeof *f);
	f->crew = c;
	hosting_make(&f->hosting, c->node, r, r->live);
	c->under_way += r->need.slots;
	http_begin(c->http, &f->hosting.view, &f->hosting.host, on_ended);
}

/* It was stopped, or found no slot. */
static void
turn_away(struct http_crew *c, struct run *r, enum pgrab_stop stop)
{
	struct pgrab_result result = {.size = sizeof result, .not_started = stop == PGRAB_STOP_NONE};

	result_fail(&result, stop == PGRAB_STOP_NONE ? "none of the http_slots was free"
						     : "stopped before the request was begun");
	r->end.retry_us = result.not_started ? RETRY_UNCOUNTED : RETRY_DEFAULT;
	carrier_end(&c->carrier, r, OUTCOME_NONE, &result);
}

static void
append(struct http_crew *c, struct run *r)
{
	r->note.mail.next = NULL;
	*c->line_end = &r->note.mail;
	c->line_end = &r->note.mail.next;
}

/* Its time has not come.  (One that was due a thousand years ago has.) */
static bool
is_early(const struct run *r, int64_t now)
{
	return r->due_mono_us > now && r->due_mono_us < now + US_PER_S;
}

/* Returns when to call again. */
static int64_t
deal(struct http_crew *c, int64_t now)
{
	struct mail *m = c->line;
	int64_t next = CLOCK_NEVER;

	c->line_end = &c->line;
	while (m != NULL) {
		struct run *r = run_of(m);
		enum pgrab_stop stop = carrier_stop(&c->carrier, r);
		bool full = c->under_way + r->need.slots > c->node->set->http_slots, early = is_early(r, now);
		int64_t until_us = early ? r->due_mono_us : r->begun_us + SURPLUS_US;

		m = m->next;
		if (stop != PGRAB_STOP_NONE || (full && !early && now >= until_us)) {
			turn_away(c, r, stop);
		} else if (early || full) {
			append(c, r);
			next = until_us < next ? until_us : next;
		} else {
			begin(c, r);
		}
	}
	*c->line_end = NULL;
	return next;
}

static void
take_inbox(struct http_crew *c)
{
	int64_t now = clock_mono_us();
	struct mail *m = NULL;

	while (mailbox_pop_all_until(c->inbox, 0, &m) == RC_OK) {
		while (m != NULL) {
			struct run *r = run_of(m);

			m = m->next;
			r->begun_us = now; /* until it begins: since when it waits */
			append(c, r);
		}
	}
}

static void *
http_crew_main(void *arg)
{
	struct http_crew *c = arg;
	int64_t next = 0;
	eventfd_t ignored;

	while (!atomic_load(&c->quit)) {
		if (http_drive(c->http, c->wake_fd, next) && eventfd_read(c->wake_fd, &ignored) == 0) {
			atomic_store(&c->woken, false);
			http_look_at_stops(c->http);
		}
		take_inbox(c);
		next = deal(c, clock_mono_us());
		carrier_flush(&c->carrier);
	}
	return NULL;
}

static void
wake(struct http_crew *c)
{
	if (!atomic_exchange(&c->woken, true) && eventfd_write(c->wake_fd, 1) != 0)
		log_error("wake_failed", "what=http");
}

void
http_crew_take(struct http_crew *c, struct run *r)
{
	mailbox_push(c->inbox, &r->note.mail);
	wake(c);
}

int
http_crew_wake_fd(const struct http_crew *c)
{
	return c->wake_fd;
}

enum rc
http_crew_create(struct node *n, struct http_crew **out, struct err *err)
{
	struct http_crew *c;
	char why[200];

	*out = NULL;
	if (exec_set_find(n->execs, exec_http.kind) == NULL)
		return RC_OK;
	c = xcalloc(1, sizeof *c);
	c->node = n;
	c->inbox = mailbox_create();
	c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (c->wake_fd < 0)
		abort();
	c->line_end = &c->line;
	carrier_init(&c->carrier, n);
	c->http = http_open(&n->exec_env, why, sizeof why);
	*out = c;
	if (c->http != NULL)
		return RC_OK;
	http_crew_destroy(out);
	return err_set(err, RC_FATAL, "%s", why);
}

void
http_crew_destroy(struct http_crew **cp)
{
	struct http_crew *c = *cp;

	if (c == NULL)
		return;
	if (c->http != NULL)
		http_close(c->http);
	mailbox_destroy(&c->inbox);
	close(c->wake_fd);
	free(c);
	*cp = NULL;
}

void
http_crew_start(struct http_crew *c, size_t number)
{
	if (c == NULL)
		return;
	c->started = true;
	boss_slots(c->node->boss, number, c->node->set->http_slots);
	thread_start(&c->thread, "http", http_crew_main, c);
}

void
http_crew_stop(struct http_crew *c)
{
	if (c == NULL || !c->started)
		return;
	atomic_store(&c->quit, true);
	wake(c);
	thread_join(c->thread);
}
