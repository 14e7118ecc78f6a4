/* Who sends this request, and may another site have made a browser send it?  All in the HTTP thread, and
 * nothing here blocks. */
#pragma once

#include <stdbool.h>

#include <event2/http.h>

#include "serve/call.h"

struct guard;

/* Looks up the users that the sections name.  RC_BAD: there is no such user. */
CHECKED enum rc guard_create(const struct serve_settings *set, struct guard **out, struct err *err);
void guard_destroy(struct guard **g);

/* Who is at the other end: c->peer; over a Unix socket also which role that user has. */
void guard_peer(struct guard *g, struct call *c);

/* Fills in c->role, c->token and c->csrf.  False: the request is refused, and c holds the answer.  Call it
 * when the route is known and the body is there. */
bool guard_admit(struct guard *g, struct call *c);

/* False: how long the request is, or for whom, could be read in two ways; the answer is in c. */
bool guard_framing(struct call *c, struct evkeyvalq *headers);

/* Is that Host header one of this program's names?  The name of another site that was
 * made to point here is not. */
bool guard_host(const struct serve_settings *set, const char *host);

/* The value of one cookie in a Cookie header, or false.  size: of out. */
bool guard_cookie(const char *header, const char *name, char *out, size_t size);

/* 32 hexadecimal digits that nobody can guess. */
void guard_random(char out[33]);
