/* The HTTP thread: listeners, requests in, answers out.  It never waits for a database. */
#pragma once

#include <event2/event.h>

#include "base/rc.h"
#include "serve/settings.h"

struct http;

/* Listens.  RC_BAD: an address cannot be listened on; err says which and why. */
CHECKED enum rc
http_create(struct event_base *base, const struct serve_settings *set, struct http **out, struct err *err);

/* No new connections; idle(arg) is called once no request is under way. */
void http_drain(struct http *h, void (*idle)(void *arg), void *arg);
void http_destroy(struct http **h);
