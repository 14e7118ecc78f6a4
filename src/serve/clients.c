/*
 * evhttp does not tell when a connection ends, and limits only the silence between two bytes.  So:
 *
 * The number of a new descriptor, which is the lowest that is free, shows how many are open.
 *
 * A connection's clock runs while the client has to do something: from the first byte of a request until the
 * request is whole, and from the answer until it is sent.  It is kept here by the address of its bufferevent,
 * which is used only while that one itself calls.  An entry whose connection has ended is overwritten by the
 * next one in its place; two that collide share a clock, which then starts again for both: a slow client gets
 * a little more time, and nobody else is affected.
 *
 * Nor does evhttp tell who has connected before a request is whole.  So when most of the room is used, all
 * descriptors are asked for their peers, and an address that has more than its share loses the surplus.
 */
#include "serve/clients.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
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
#define REQUEST_US  (10 * US_PER_S) /* for a request to come in, and again for the answer to be read */
#define PAUSE_MS    100
#define SILENT_MS   20 /* before a connection may be taken for a forgotten one */
#define OWN_FDS     64 /* of this program itself, about */
#define RESERVE_FDS 256

struct clock_entry {
	const struct bufferevent *bev;
	int64_t begun_us; /* 0: between two requests, or it is our turn */
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
	int share; /* connections of one address */
	struct event *crowded;
	int64_t *heard_us; /* of each descriptor up to max_fd: when something was read from it last */
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

union name {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
	struct sockaddr_storage room;
};

/* Did this connection come in here?  Those to the database did not. */
static bool
is_client(const struct clients *c, int fd)
{
	for (size_t i = 0; i < c->n_listeners; i++) {
		union name ours = {.room = {0}}, door = {.room = {0}};
		socklen_t ours_len = sizeof ours, door_len = sizeof door;

		if (getsockname(fd, &ours.any, &ours_len) != 0 ||
		    getsockname(evconnlistener_get_fd(c->listener[i]), &door.any, &door_len) != 0 ||
		    ours.any.sa_family != door.any.sa_family)
			continue;
		if (ours.any.sa_family == AF_UNIX ? strcmp(ours.un.sun_path, door.un.sun_path) == 0
						  : ours.in.sin_port == door.in.sin_port)
			return true;
	}
	return false;
}

/* Whose connection this is; 0: nobody's.  Users of a Unix socket count by their number. */
static uint64_t
peer_of(const struct clients *c, int fd)
{
	union name name = {.room = {0}};
	socklen_t len = sizeof name, who_len = sizeof(struct ucred);
	struct ucred who;
	uint64_t half[2];

	if (getpeername(fd, &name.any, &len) != 0 || !is_client(c, fd))
		return 0;
	if (name.any.sa_family == AF_INET)
		return mix(name.in.sin_addr.s_addr) | 1;
	if (name.any.sa_family == AF_UNIX)
		return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_len) == 0 ? mix(who.uid) << 1 | 1
										    : 0;
	memcpy(half, name.in6.sin6_addr.s6_addr, sizeof half);
	return mix(mix(half[0]) ^ half[1]) | 1;
}

/* For how long nothing has come from there, in ms.  The system counts from the moment when the bytes came,
 * but a request may have lain for long before its connection was let in: what nobody has read yet is no
 * silence, and what was read counts from then on. */
static uint64_t
silence_of(const struct clients *c, int fd)
{
	uint64_t since_read = (uint64_t)(clock_mono_us() - c->heard_us[fd]) / 1000;
	struct tcp_info info = {0};
	socklen_t len = sizeof info;
	int unread = 0;

	if (ioctl(fd, FIONREAD, &unread) == 0 && unread > 0)
		return 0;
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0 || since_read < info.tcpi_last_data_recv)
		return since_read;
	return info.tcpi_last_data_recv;
}

/* The most silent connection of an address: one that it has forgotten, or wants others not to have.  -1: all
 * have come, or said something, just now.  (The system counts in ticks of a few ms: among those of one tick
 * the one with a request may not be told from the idle ones.) */
static int
most_silent(const struct clients *c, const uint64_t *peer, int last, uint64_t who)
{
	uint64_t longest = SILENT_MS, silent;
	int most = -1;

	for (int fd = 0; fd <= last; fd++) {
		silent = peer[fd] == who ? silence_of(c, fd) : 0;
		if (silent > longest) {
			longest = silent;
			most = fd;
		}
	}
	return most;
}

static void
on_crowded(evutil_socket_t none, short what, void *arg)
{
	struct clients *c = arg;
	struct timeval again = {.tv_usec = SILENT_MS * 1000};
	AUTO_FREE uint64_t *peer = xcalloc((size_t)c->max_fd + 1, sizeof *peer);

	for (int fd = 0; fd <= c->max_fd; fd++) {
		int n = 0, most;

		peer[fd] = peer_of(c, fd);
		for (int i = 0; peer[fd] != 0 && i <= fd; i++)
			n += peer[i] == peer[fd];
		if (n <= c->share)
			continue;
		most = most_silent(c, peer, fd, peer[fd]);
		if (most < 0) {
			event_add(c->crowded, &again);
			continue;
		}
		(void)shutdown(most, SHUT_RDWR); /* evhttp notices the end by itself */
		peer[most] = 0;
	}
}

struct clients *
clients_create(struct event_base *base, int64_t max, int64_t rate)
{
	struct clients *c = xcalloc(1, sizeof *c);
	struct rlimit r;

	c->base = base;
	c->rate = rate;
	c->max_fd = (int)max + OWN_FDS;
	c->share = (int)(max - max / 4);
	c->crowded = event_new(base, -1, 0, on_crowded, c);
	c->again = evtimer_new(base, on_again, c);
	/* What clients may not use is left for connections to the database. */
	if (getrlimit(RLIMIT_NOFILE, &r) == 0 && r.rlim_cur < (rlim_t)c->max_fd + RESERVE_FDS) {
		r.rlim_cur = r.rlim_max < (rlim_t)c->max_fd + RESERVE_FDS ? r.rlim_max
									  : (rlim_t)c->max_fd + RESERVE_FDS;
		(void)setrlimit(RLIMIT_NOFILE, &r);
		if ((rlim_t)c->max_fd + RESERVE_FDS > r.rlim_cur && r.rlim_cur > RESERVE_FDS)
			c->max_fd = (int)r.rlim_cur - RESERVE_FDS;
	}
	c->heard_us = xcalloc((size_t)c->max_fd + 1, sizeof *c->heard_us);
	return c;
}

void
clients_destroy(struct clients **c)
{
	event_free((*c)->again);
	event_free((*c)->crowded);
	free((*c)->heard_us);
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
	int fd = bufferevent_getfd(bev);

	if (!out && fd >= 0 && fd <= c->max_fd)
		c->heard_us[fd] = now;
	if (out && left == 0)
		e->begun_us = 0;
	else if (e->begun_us == 0)
		e->begun_us = now;
	else if (now - e->begun_us > REQUEST_US)
		(void)shutdown(fd, SHUT_RDWR);
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
	if (probe < 0 || probe >= c->share)
		event_active(c->crowded, EV_TIMEOUT, 1); /* later, when this one has its descriptor */
	if (probe >= 0)
		close(probe);
	return bev;
}

static void
set_patience(struct bufferevent *bev, int seconds)
{
	struct timeval tv = {.tv_sec = seconds}, idle = {.tv_sec = CLIENTS_IDLE_S};

	bufferevent_set_timeouts(bev, seconds == 0 ? NULL : &tv, &idle);
}

void
clients_wait(struct clients *c, struct bufferevent *bev)
{
	clock_of(c, bev)->begun_us = 0;
	set_patience(bev, 0);
}

void
clients_go_on(struct clients *c, struct bufferevent *bev)
{
	set_patience(bev, CLIENTS_IDLE_S);
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
