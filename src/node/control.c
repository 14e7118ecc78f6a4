/* See control.h.  Signals are libevent events here, so their handlers may do anything; all other threads have
 * them blocked. */
#include "node/control.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <event2/event.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/keeper.h"
#include "node/boss/boss.h"
#include "node/context.h"
#include "node/doorbell.h"
#include "node/heartbeat/heartbeat.h"
#include "node/loader/loader.h"
#include "node/node.h"
#include "node/recover/recover.h"
#include "node/signals.h"
#include "node/runs/teller.h"

struct control {
	struct node *node;
	struct loaders *loaders;
	struct heartbeat *heartbeat;
	struct workers *workers; /* NULL: it is stopping */
	struct event_base *base;
	struct event *term, *intr, *quit, *hup, *keeper, *empty, *timer;
	enum control_end end;
	enum control_end on_signal;
};

static void
set_timer(struct event *timer, int64_t us)
{
	struct timeval tv = {.tv_sec = us / US_PER_S, .tv_usec = us % US_PER_S};

	event_add(timer, &tv);
}

static void
end_loop(struct control *c, enum control_end end)
{
	c->end = end;
	event_base_loopbreak(c->base);
}

static void
on_signal(evutil_socket_t sig, short what, void *arg)
{
	struct control *c = arg;

	log_info("signal", "name=%s", sigabbrev_np(sig));
	end_loop(c, sig == SIGQUIT ? CONTROL_NOW : c->on_signal);
}

/* HUP: a terminal has gone away, or an init script wants a reload. */
static void
on_hup(evutil_socket_t sig, short what, void *arg)
{
	struct control *c = arg;

	if (c->workers == NULL) {
		log_info("reload", "hint=\"the node is stopping: nothing was changed\"");
		return;
	}
	reload(c->node, c->workers);
	loaders_ring_lanes(c->loaders);
	heartbeat_ring(c->heartbeat);
}

static void
on_keeper(evutil_socket_t fd, short what, void *arg)
{
	log_error("keeper_died",
	    "hint=\"child processes are being ended; the node stops, its peers take its tasks\"");
	end_loop(arg, CONTROL_BROKEN);
}

static void
on_empty(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;

	if (boss_wait_empty(c->node->boss, 0))
		end_loop(c, CONTROL_STOP);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	log_warn("drain_timeout", "hint=\"runs that have not ended are stopped and handed on\"");
	end_loop(arg, CONTROL_NOW);
}

/* A node that is fenced or not registered cannot know whether there is work. */
static void
on_idle(evutil_socket_t fd, short what, void *arg)
{
	struct control *c = arg;
	const struct node *n = c->node;
	int64_t most = n->set->exit_when_idle_us, idle = clock_mono_us() - atomic_load(&n->idle_us);

	if (atomic_load(&n->in_hand) > 0 || atomic_load(&n->incarnation) == 0)
		idle = 0;
	if (idle >= most) {
		log_info("idle", "hint=\"it has had no task for exit_when_idle\"");
		end_loop(c, CONTROL_STOP);
	} else {
		set_timer(c->timer, most - idle);
	}
}

static void
on_ring(void *ctx, const uint16_t *shards, unsigned n)
{
	struct control *c = ctx;

	loaders_ring(c->loaders, shards, n);
}

static void
on_anew(void *ctx)
{
	struct control *c = ctx;

	loaders_ring_lanes(c->loaders);
}

static void
on_wish(void *ctx)
{
	struct control *c = ctx;

	heartbeat_ring(c->heartbeat);
}

static void
on_notice(void *ctx)
{
	struct control *c = ctx;

	recover_notice(c->node->recover);
}

static void
on_waits(void *ctx)
{
	struct control *c = ctx;

	recover_waits(c->node->recover);
}

static void
on_ask(void *ctx, int64_t node_id)
{
	struct control *c = ctx;

	if (node_id == atomic_load(&c->node->node_id))
		teller_ask(c->node->teller);
}

static void
on_news(void *ctx, int64_t node_id, enum member_news news)
{
	struct control *c = ctx;

	heartbeat_hear(c->heartbeat, node_id, news);
}

static void
on_joins(void *ctx)
{
	struct control *c = ctx;

	heartbeat_hear_joins(c->heartbeat);
}

static void
open_control(struct control *c, struct node *n, enum control_end on_sig)
{
	c->node = n;
	c->base = event_base_new();
	if (c->base == NULL)
		abort();
	c->on_signal = on_sig;
	c->term = evsignal_new(c->base, SIGTERM, on_signal, c);
	c->intr = evsignal_new(c->base, SIGINT, on_signal, c);
	c->quit = evsignal_new(c->base, SIGQUIT, on_signal, c);
	event_add(c->term, NULL);
	event_add(c->quit, NULL);
	c->hup = evsignal_new(c->base, SIGHUP, on_hup, c);
	event_add(c->intr, NULL);
	event_add(c->hup, NULL);
	signals_unblock();
	if (n->keeper != NULL) {
		c->keeper = event_new(c->base, keeper_alive_fd(n->keeper), EV_READ, on_keeper, c);
		event_add(c->keeper, NULL);
	}
}

static enum control_end
close_control(struct control *c)
{
	signals_block(); /* what comes between two loops waits for the next */
	struct event *const all[] = {c->term, c->intr, c->quit, c->hup, c->keeper, c->empty, c->timer};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i] != NULL)
			event_free(all[i]);
	}
	event_base_free(c->base);
	return c->end;
}

enum control_end
control_run(struct node *n, struct loaders *loaders, struct heartbeat *heartbeat, struct workers *workers)
{
	struct control c = {.loaders = loaders, .heartbeat = heartbeat, .workers = workers};
	const struct doorbell_calls calls = {.ring = on_ring,
	    .anew = on_anew,
	    .wish = on_wish,
	    .notice = on_notice,
	    .waits = on_waits,
	    .ask = on_ask,
	    .news = on_news,
	    .joins = on_joins,
	    .ctx = &c};
	struct doorbell *bell;

	open_control(&c, n, CONTROL_STOP);
	bell = doorbell_create(
	    c.base, n->set->listen_dsn != NULL ? n->set->listen_dsn : n->set->dsn, &calls, &n->bell_heard);
	if (n->set->exit_when_idle_us > 0) {
		atomic_store(&n->idle_us, clock_mono_us());
		c.timer = event_new(c.base, -1, 0, on_idle, &c);
		set_timer(c.timer, n->set->exit_when_idle_us);
	}
	event_base_dispatch(c.base);
	doorbell_destroy(&bell);
	return close_control(&c);
}

enum control_end
control_drain(struct node *n)
{
	struct control c = {0};

	open_control(&c, n, CONTROL_NOW);
	c.empty = event_new(c.base, boss_empty_fd(n->boss), EV_READ | EV_PERSIST | EV_ET, on_empty, &c);
	event_add(c.empty, NULL);
	c.timer = event_new(c.base, -1, 0, on_timer, &c);
	set_timer(c.timer, n->set->drain_timeout_us);
	event_base_dispatch(c.base);
	return close_control(&c);
}
