/*
 * evhttp does not tell when a connection ends, and limits only the silence between two bytes.  So:
 *
 * The number of a new descriptor, which is the lowest that is free, shows how many are open.
 *
 * A connection's clock starts with the first byte of a request and ends when the answer is sent.  It is kept
 * here by the address of its bufferevent, which is used only while that one itself calls.  An entry whose
 * connection has ended is overwritten by the next one in its place; two that collide share a clock, which
 * then starts again for both: a slow client gets a little more time, and nobody else is affected.
 */
#include "serve/clients.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/buffer.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "serve/call.h"

/* Unread bytes of a connection: evhttp wants to see a whole body at once. */
#define INPUT_MAX   (CALL_BODY_MAX + 64 * 1024)
#define CLOCKS      8192
#define ASKERS      1024
#define REQUEST_US  (10 * US_PER_S) /* for a request to come in and the answer to be read */
#define PAUSE_MS    100
#define OWN_FDS     64 /* of this program itself, about */
#define RESERVE_FDS 256

struct clock_entry {
	const struct bufferevent *bev;
	int64_t begun_us; /* 0: between two requests */
};

struct asker {
	uint64_t hash;
	int64_t second;
	int64_t count;
};

struct clients {
	struct event_base *base;
	int64_t rate;
	int max_fd;
	struct evconnlistener *listener[CLIENTS_LISTENERS_MAX];
	size_t n_listeners;
	struct event *again;
	struct clock_entry clock[CLOCKS];
	struct asker asker[ASKERS];
};

static uint64_t
mix(uint64_t x)
{
	x ^= x >> 31;
	x *= UINT64_C(0x9e3779b97f4a7c15);
	return x ^ x >> 29;
}

static struct clock_entry *
clock_of(struct clients *c, const struct bufferevent *bev)
{
	struct clock_entry *e = &c->clock[mix((uintptr_t)bev) % CLOCKS];

	if (e->bev != bev) {
		e->bev = bev;
		e->begun_us = 0;
	}
	return e;
}

static void
set_listening(struct clients *c, bool on)
{
	for (size_t i = 0; i < c->n_listeners; i++) {
		if (on)
			evconnlistener_enable(c->listener[i]);
		else
			evconnlistener_disable(c->listener[i]);
	}
}

static void
on_again(evutil_socket_t fd, short what, void *arg)
{
	set_listening(arg, true);
}

static void
pause_listening(struct clients *c)
{
	struct timeval tv = {.tv_usec = PAUSE_MS * 1000};

	set_listening(c, false);
	event_add(c->again, &tv);
}

/* Out of descriptors, say: do not try again at once. */
static void
on_accept_error(struct evconnlistener *l, void *arg)
{
	log_warn("accept", "error=\"%s\"", strerror(errno));
	pause_listening(arg);
}

struct clients *
clients_create(struct event_base *base, int64_t max, int64_t rate)
{
	struct clients *c = xcalloc(1, sizeof *c);
	struct rlimit r;

	c->base = base;
	c->rate = rate;
	c->max_fd = (int)max + OWN_FDS;
	c->again = evtimer_new(base, on_again, c);
	/* What clients may not use is left for connections to the database. */
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < (rlim_t)c->max_fd + RESERVE_FDS) {
		r.rlim_cur = r.rlim_max < (rlim_t)c->max_fd + RESERVE_FDS ? r.rlim_max
									  : (rlim_t)c->max_fd + RESERVE_FDS;
		(void)setrlimit(RLIMIT_NOFILE, &r);
		if ((rlim_t)c->max_fd + RESERVE_FDS > r.rlim_cur && r.rlim_cur > RESERVE_FDS)
			c->max_fd = (int)r.rlim_cur - RESERVE_FDS;
	}
	return c;
}

void
clients_destroy(struct clients **c)
{
	event_free((*c)->again);
	free(*c);
	*c = NULL;
}

void
clients_watch(struct clients *c, struct evconnlistener *listener)
{
	c->listener[c->n_listeners++] = listener;
	evconnlistener_set_error_cb(listener, on_accept_error);
}

/* Whatever comes in or goes out.  Shut down, not freed: we are called from inside it, and it
 * notices the end by itself. */
static void
on_flow(struct clients *c, struct bufferevent *bev, bool out, size_t left)
{
	struct clock_entry *e = clock_of(c, bev);
	int64_t now = clock_mono_us();

	if (out && left == 0)
		e->begun_us = 0;
	else if (e->begun_us == 0)
		e->begun_us = now;
	else if (now - e->begun_us > REQUEST_US)
		(void)shutdown(bufferevent_getfd(bev), SHUT_RDWR);
}

/* One `struct clients` serves the program, and a callback has room for one pointer: that
 * is used for the connection. */
static struct clients *the_clients;

static void
on_in(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg)
{
	if (info->n_added > 0)
		on_flow(the_clients, arg, false, evbuffer_get_length(b));
}

static void
on_out(struct evbuffer *b, const struct evbuffer_cb_info *info, void *arg)
{
	on_flow(the_clients, arg, true, evbuffer_get_length(b));
}

struct bufferevent *
clients_open(struct event_base *base, void *arg)
{
	struct clients *c = arg;
	struct bufferevent *bev = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
	int probe = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	if (bev == NULL)
		abort();
	the_clients = c;
	clock_of(c, bev)->begun_us = clock_mono_us(); /* a client that says nothing at all is slow, too */
	bufferevent_setwatermark(bev, EV_READ, 0, INPUT_MAX);
	evbuffer_add_cb(bufferevent_get_input(bev), on_in, bev);
	evbuffer_add_cb(bufferevent_get_output(bev), on_out, bev);
	if (probe < 0 || probe >= c->max_fd)
		pause_listening(c);
	if (probe >= 0)
		close(probe);
	return bev;
}

bool
clients_may_ask(struct clients *c, const char *who)
{
	int64_t second = clock_mono_us() / US_PER_S;
	uint64_t hash = 1469598103934665603u;
	struct asker *a;

	for (; *who != '\0'; who++)
		hash = (hash ^ (unsigned char)*who) * 1099511628211u;
	a = &c->asker[mix(hash) % ASKERS];
	if (a->hash != hash || a->second != second) {
		a->hash = hash;
		a->second = second;
		a->count = 0;
	}
	return ++a->count <= c->rate;
}
