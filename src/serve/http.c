#include "serve/http.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/http.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "serve/call.h"
#include "serve/clients.h"
#include "serve/fleet.h"
#include "serve/guard.h"
#include "serve/listen.h"
#include "serve/metrics.h"
#include "serve/otlp.h"
#include "serve/answer.h"
#include "serve/route.h"
#include "serve/stream.h"

#define HEADERS_MAX (16 * 1024)

/* So that one database does not hold up the others. */
struct pool {
	struct answerers *answerers;
	struct metrics *metrics;
};

struct http {
	const struct serve_settings *set;
	struct evhttp *server;
	struct clients *clients;
	struct guard *guard;
	struct mailbox *done;
	struct otlp *otlp; /* NULL: no spans are sent */
	struct fleet *fleet;
	struct pool *pools; /* one for each database */
	struct streams *streams;
	struct event *on_done;
	int done_fd;
	int64_t under_way;
	void (*idle)(void *arg);
	void *idle_arg;
};

static void
answered(struct http *h)
{
	h->under_way--;
	if (h->under_way == 0 && h->idle != NULL)
		h->idle(h->idle_arg);
}

/* Does this answer go on?  Only to a client that is still there, and if there is room for it. */
static bool
goes_on(struct http *h, struct call *c)
{
	if (!c->streaming || c->status != 200 || strcmp(c->method, "GET") != 0 ||
	    evhttp_request_get_connection(c->req) == NULL)
		return false;
	if (streams_room(h->streams, c->peer))
		return true;
	return call_problem(
	    c, 503, "too many clients listen to events", "GET /api/v1/runs?since=1m lists the same.");
}

static void
send_answer(struct http *h, struct call *c)
{
	struct evhttp_connection *conn = evhttp_request_get_connection(c->req);
	struct evbuffer *body = evbuffer_new();
	int64_t us = clock_mono_us() - c->begun_us;
	bool stream = goes_on(h, c);
	char length[24];

	if (conn != NULL)
		clients_go_on(h->clients, evhttp_connection_get_bufferevent(conn));
	prefix_put(c);
	reply_headers(c);
	if (strcmp(c->method, "HEAD") == 0) {
		snprintf(length, sizeof length, "%zu", c->out.len);
		reply_header(c, "Content-Length", length);
	} else {
		evbuffer_add(body, buf_str(&c->out), c->out.len);
	}
	reply_log(c, us);
	metrics_request(h->pools[c->database].metrics, c->status, us);
	if (stream) {
		streams_begin(h->streams, h->pools[c->database].answerers, c);
	} else {
		/* If the client has gone meanwhile this only frees the request. */
		evhttp_send_reply(c->req, c->status, NULL, body);
		call_free(c);
	}
	evbuffer_free(body);
	answered(h);
}

static void
take_back(struct http *h, struct call *c)
{
	if (c->stream != NULL)
		streams_done(h->streams, c);
	else
		send_answer(h, c);
}

static void
on_done(evutil_socket_t fd, short what, void *arg)
{
	struct http *h = arg;
	uint64_t n;
	struct mail *m;

	if (read(fd, &n, sizeof n) < 0)
		return;
	while (mailbox_pop_until(h->done, 0, &m) == RC_OK)
		take_back(h, (struct call *)m);
}

static const char *
method_of(const struct evhttp_request *req)
{
	switch (evhttp_request_get_command(req)) {
	case EVHTTP_REQ_GET: return "GET";
	case EVHTTP_REQ_HEAD: return "HEAD";
	case EVHTTP_REQ_POST: return "POST";
	case EVHTTP_REQ_PUT: return "PUT";
	case EVHTTP_REQ_PATCH: return "PATCH";
	case EVHTTP_REQ_DELETE: return "DELETE";
	case EVHTTP_REQ_OPTIONS:
	case EVHTTP_REQ_TRACE:
	case EVHTTP_REQ_CONNECT: break;
	}
	return "?";
}

/* The client's own, if it is harmless; else a new one. */
static void
set_id(struct call *c)
{
	const char *given = call_header(c, "X-Request-Id");

	if (given != NULL && *given != '\0' && strlen(given) < sizeof c->id &&
	    given[strspn(given, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] ==
		'\0') {
		snprintf(c->id, sizeof c->id, "%s", given);
	} else {
		guard_random(c->id);
		c->id[16] = '\0';
	}
}

static struct call *
call_of(struct http *h, struct evhttp_request *req)
{
	struct call *c = xcalloc(1, sizeof *c);
	const char *last, *proto;

	c->req = req;
	c->set = h->set;
	c->status = 200;
	c->begun_us = clock_mono_us();
	c->method = xstrdup(method_of(req));
	c->uri = xstrdup(evhttp_request_get_uri(req));
	proto = call_header(c, "X-Forwarded-Proto");
	c->secure = proto != NULL && strcmp(proto, "https") == 0;
	TAILQ_INIT(&c->query);
	TAILQ_INIT(&c->form);
	last = call_header(c, "Last-Event-ID");
	snprintf(c->cursor, sizeof c->cursor, "%s", last == NULL ? "" : last);
	set_id(c);
	c->accept = call_header(c, "Accept");
	c->traceparent = call_header(c, "traceparent");
	return c;
}

/* evhttp_parse_query_str leaves its list in order to be cleared, whatever comes of it. */
static bool
take_query(struct call *c)
{
	const char *query = strchr(c->uri, '?');

	if (query != NULL && evhttp_parse_query_str(query + 1, &c->query) != 0)
		return call_problem(
		    c, 400, "the part of the URL after ? cannot be read", "It is name=value&name=value.");
	return true;
}

static bool
has_type(const struct call *c, const char *type)
{
	const char *given = call_header(c, "Content-Type");
	size_t n = strlen(type);

	return given != NULL && strncasecmp(given, type, n) == 0 &&
	       (given[n] == '\0' || given[n] == ';' || given[n] == ' ');
}

static bool
take_body(struct call *c)
{
	struct evbuffer *in = evhttp_request_get_input_buffer(c->req);

	c->body_len = evbuffer_get_length(in);
	if (c->body_len == 0)
		return true;
	c->body = xmalloc(c->body_len + 1);
	c->body[evbuffer_remove(in, c->body, c->body_len)] = '\0';
	if (strlen(c->body) != c->body_len)
		return call_problem(c, 400, "the body holds a NUL byte", NULL);
	if (c->set->callback_listen != NULL)
		return true; /* whatever a receiver calls it: the database reads it */
	if (!call_is_page(c))
		return has_type(c, "application/json") || call_problem(c, 415, "the body is not JSON",
							      "Send it with Content-Type: application/json.");
	if (!has_type(c, "application/x-www-form-urlencoded"))
		return call_problem(c, 415, "the body is not a form", NULL);
	return evhttp_parse_query_str(c->body, &c->form) == 0 ||
	       call_problem(c, 400, "the form cannot be read", NULL);
}

static bool
find_route(struct call *c)
{
	char *path = xmemdup0(c->uri, strcspn(c->uri, "?"));

	c->route = route_find(c, c->method, path, &c->allow);
	free(path);
	if (c->route == NULL && c->allow != NULL)
		return call_problem(c, 405, "this path does not take this method", c->allow);
	return c->route != NULL ||
	       call_problem(c, 404, "there is nothing here",
		   c->set->callback_listen != NULL ? "The header Pgrab-Callback has the whole address."
						   : "/api/v1/openapi.json lists what there is.");
}

static bool
may_come_in(struct http *h, struct call *c)
{
	const char *host = call_header(c, "Host");

	guard_peer(h->guard, c);
	if (!guard_framing(c, evhttp_request_get_input_headers(c->req)))
		return false;
	if (c->uri[0] != '/')
		return call_problem(c, 400, "the request names no path", NULL);
	/* at the door the token is all the right there is, and no browser has one */
	if (h->set->callback_listen == NULL && !guard_host(h->set, host))
		return call_problem(c, 421, "this server does not answer under that name",
		    "Use its address, or let pgrab serve know the name: hosts = NAME.");
	if (!clients_may_ask(h->clients, c->peer))
		return call_problem(c, 429, "too many requests within one second", NULL);
	if (!prefix_take(c) || !take_query(c) || !find_route(c) || !take_body(c))
		return false;
	c->metrics = h->pools[c->database].metrics;
	if (h->set->callback_listen == NULL)
		return guard_admit(h->guard, c);
	c->role = CALL_OWN_ROLE;
	return true;
}

static void
on_request(struct evhttp_request *req, void *arg)
{
	struct http *h = arg;
	struct call *c = call_of(h, req);

	h->under_way++;
	clients_wait(h->clients, evhttp_connection_get_bufferevent(evhttp_request_get_connection(req)));
	if (!may_come_in(h, c)) {
		send_answer(h, c);
	} else if (c->route->how == ROUTE_HERE) {
		c->route->answer(c, NULL);
		send_answer(h, c);
	} else if (!answerers_push(h->pools[c->database].answerers, c)) {
		call_problem(c, 503, "too many requests wait for the database", "Try again in a moment.");
		send_answer(h, c);
	}
}

static void
set_up(struct http *h, struct event_base *base)
{
	h->server = evhttp_new(base);
	if (h->server == NULL)
		abort();
	evhttp_set_gencb(h->server, on_request, h);
	evhttp_set_bevcb(h->server, clients_open, h->clients);
	evhttp_set_timeout(h->server, CLIENTS_IDLE_S);
	evhttp_set_max_headers_size(h->server, HEADERS_MAX);
	evhttp_set_max_body_size(
	    h->server, h->set->callback_listen != NULL ? CALLBACK_BODY_MAX : CALL_BODY_MAX);
	evhttp_set_default_content_type(h->server, NULL);
	evhttp_set_allowed_methods(h->server, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
						  EVHTTP_REQ_PUT | EVHTTP_REQ_PATCH | EVHTTP_REQ_DELETE);
}

static void
create_pools(struct http *h)
{
	size_t n = h->set->n_databases + 1;

	h->fleet = n > 1 ? fleet_create(n) : NULL;
	h->pools = xcalloc(n, sizeof *h->pools);
	for (size_t i = 0; i < n; i++) {
		h->pools[i].answerers = answerers_create(h->set, i, h->fleet, h->done, h->done_fd);
		h->pools[i].metrics = metrics_create(h->pools[i].answerers, i == 0 ? h->otlp : NULL);
	}
}

enum rc
http_create(struct event_base *base, const struct serve_settings *set, struct http **out, struct err *err)
{
	struct http *h = xcalloc(1, sizeof *h);
	enum rc rc;

	h->set = set;
	h->clients = clients_create(base, set->clients, set->rate);
	set_up(h, base);
	rc = guard_create(set, &h->guard, err);
	if (rc == RC_OK)
		rc = listen_all(base, set, h->server, h->clients, err);
	if (rc == RC_OK) {
		h->done = mailbox_create();
		h->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (h->done_fd < 0)
			abort();
		h->on_done = event_new(base, h->done_fd, EV_READ | EV_PERSIST, on_done, h);
		event_add(h->on_done, NULL);
		h->streams = streams_create(base);
		h->otlp = set->otlp == NULL ? NULL : otlp_start(set);
		create_pools(h);
		*out = h;
	} else {
		http_destroy(&h);
	}
	return rc;
}

static void
drop_listener(struct evhttp_bound_socket *s, void *arg)
{
	evconnlistener_disable(evhttp_bound_socket_get_listener(s));
}

void
http_drain(struct http *h, void (*idle)(void *arg), void *arg)
{
	evhttp_foreach_bound_socket(h->server, drop_listener, NULL);
	streams_stop(h->streams);
	h->idle = idle;
	h->idle_arg = arg;
	if (h->under_way == 0)
		idle(arg);
}

void
http_destroy(struct http **hp)
{
	struct http *h = *hp;

	if (h->pools != NULL) {
		struct mail *m;

		for (size_t i = 0; i <= h->set->n_databases; i++)
			answerers_destroy(&h->pools[i].answerers);
		streams_stop(h->streams);
		while (mailbox_pop_until(h->done, 0, &m) == RC_OK)
			take_back(h, (struct call *)m);
		streams_destroy(&h->streams);
		event_free(h->on_done);
		close(h->done_fd);
		mailbox_destroy(&h->done);
		for (size_t i = 0; i <= h->set->n_databases; i++)
			metrics_destroy(&h->pools[i].metrics);
		free(h->pools);
		if (h->fleet != NULL)
			fleet_destroy(&h->fleet);
		otlp_stop(&h->otlp);
		listen_unlink(h->set); /* only if we have listened: else they may be another program's */
	}
	evhttp_free(h->server);
	if (h->guard != NULL)
		guard_destroy(&h->guard);
	clients_destroy(&h->clients);
	free(h);
	*hp = NULL;
}
