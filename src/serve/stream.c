#include "serve/stream.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#include "base/alloc.h"
#include "base/clock.h"

#define STREAMS_MAX     48
#define STREAMS_OF_PEER 32
#define BACKLOG_MAX     (256 * 1024) /* bytes that a client has not taken */
#define BUFFER_KEPT     (16 * 1024)
#define QUIET_MAX       15 /* rounds without an event; then a comment shows that we are alive */

struct stream {
	struct streams *all;
	struct answerers *answerers;
	struct call *call;
	struct event *timer;
	struct stream *next;
	int quiet;
	bool asked, gone; /* gone: the connection is closed */
};

struct streams {
	struct event_base *base;
	struct stream *first;
	int n;
	bool stopped;
};

struct streams *
streams_create(struct event_base *base)
{
	struct streams *s = xcalloc(1, sizeof *s);

	s->base = base;
	return s;
}

/* Also frees the request, if its connection has gone. */
static void
end(struct stream *st)
{
	struct stream **at = &st->all->first;

	while (*at != st)
		at = &(*at)->next;
	*at = st->next;
	st->all->n--;
	if (!st->gone)
		evhttp_connection_set_closecb(evhttp_request_get_connection(st->call->req), NULL, NULL);
	evhttp_send_reply_end(st->call->req);
	event_free(st->timer);
	call_free(st->call);
	free(st);
}

static void
on_close(struct evhttp_connection *conn, void *arg)
{
	struct stream *st = arg;

	st->gone = true;
	if (!st->asked)
		end(st);
}

static void
wait_a_second(struct stream *st)
{
	struct timeval tv = {.tv_sec = 1};

	event_add(st->timer, &tv);
}

static void
on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct stream *st = arg;

	st->call->begun_us = clock_mono_us();
	st->asked = answerers_push(st->answerers, st->call);
	if (!st->asked)
		wait_a_second(st); /* there are too many: later */
}

static bool
is_slow(const struct stream *st)
{
	struct bufferevent *bev =
	    evhttp_connection_get_bufferevent(evhttp_request_get_connection(st->call->req));

	return evbuffer_get_length(bufferevent_get_output(bev)) > BACKLOG_MAX;
}

static void
send_chunk(struct stream *st)
{
	struct call *c = st->call;
	struct evbuffer *chunk = evbuffer_new();

	st->quiet = c->out.len > 0 ? 0 : st->quiet + 1;
	if (st->quiet >= QUIET_MAX) {
		buf_adds(&c->out, ":\n\n");
		st->quiet = 0;
	}
	evbuffer_add(chunk, buf_str(&c->out), c->out.len);
	if (c->out.len > 0)
		evhttp_send_reply_chunk(c->req, chunk);
	evbuffer_free(chunk);
	buf_reset(&c->out);
}

bool
streams_room(const struct streams *s, const char *peer)
{
	int theirs = 0;

	for (const struct stream *st = s->first; st != NULL; st = st->next)
		theirs += strcmp(st->call->peer, peer) == 0;
	return !s->stopped && s->n < STREAMS_MAX && theirs < STREAMS_OF_PEER;
}

void
streams_begin(struct streams *s, struct answerers *answerers, struct call *c)
{
	struct evhttp_connection *conn = evhttp_request_get_connection(c->req);
	struct timeval tv = {.tv_sec = 10};
	int kept = BUFFER_KEPT;
	struct stream *st;

	st = xcalloc(1, sizeof *st);
	st->all = s;
	st->answerers = answerers;
	st->call = c;
	st->timer = evtimer_new(s->base, on_timer, st);
	st->next = s->first;
	s->first = st;
	s->n++;
	c->stream = st;
	/* From here on the client only reads.  The kernel keeps little for it, so that one that does not read
	 * is noticed and makes room for another. */
	(void)setsockopt(bufferevent_getfd(evhttp_connection_get_bufferevent(conn)), SOL_SOCKET, SO_SNDBUF,
	    &kept, sizeof kept);
	bufferevent_set_timeouts(evhttp_connection_get_bufferevent(conn), NULL, &tv);
	evhttp_connection_set_closecb(conn, on_close, st);
	evhttp_send_reply_start(c->req, c->status, NULL);
	send_chunk(st);
	wait_a_second(st);
}

void
streams_done(struct streams *s, struct call *c)
{
	struct stream *st = c->stream;

	st->asked = false;
	/* The client comes back by itself, with the number of the last event. */
	if (st->gone || s->stopped || c->status != 200 || is_slow(st)) {
		end(st);
		return;
	}
	send_chunk(st);
	wait_a_second(st);
}

void
streams_stop(struct streams *s)
{
	struct stream *next;

	s->stopped = true;
	for (struct stream *st = s->first; st != NULL; st = next) {
		next = st->next;
		if (!st->asked)
			end(st);
	}
}

void
streams_destroy(struct streams **s)
{
	while ((*s)->first != NULL)
		end((*s)->first);
	free(*s);
	*s = NULL;
}
