/* Which request is answered by what: one const row each.  A path's `*` is one part of it,
 * passed to the handler decoded. */
#pragma once

#include "serve/call.h"

enum route_who {
	ROUTE_KNOWN,  /* where tokens are asked for, one is needed */
	ROUTE_ANYBODY /* answered without */
};

enum route_how {
	ROUTE_AS_CALLER, /* with a connection of the caller's role */
	ROUTE_AS_SELF,   /* with one of this program's own role, no matter who asks */
	ROUTE_PROBE,     /* the same, by a thread that does nothing else */
	ROUTE_FREE,      /* the same, but it needs no database, but to look up a token */
	ROUTE_HERE       /* needs no database: answered in the HTTP thread, with db NULL */
};

struct route {
	const char *method; /* GET also answers HEAD */
	const char *path;
	route_fn *answer;
	const void *arg; /* the handler's own */
	enum route_who who;
	enum route_how how;
};

/* Handlers. */
route_fn fleet_answer, metrics_answer, live_answer, callback_answer;
route_fn api_answer;    /* arg: a struct api */
route_fn asset_answer;  /* arg: the name of an asset */
route_fn events_answer; /* called again and again, see stream.h */

/* Tables, each ended by a NULL path. */
extern const struct route serve_routes[], api_routes[], page_routes[], callback_routes[];

/* The row for this method and path (decoded parts go to c->part), among those of the door of callbacks if we
 * are that, or NULL; then *allow_out is the methods that the path has, "GET, POST", or NULL when it has none.
 * path: as it came, percent-encoded. */
const struct route *route_find(struct call *c, const char *method, const char *path, const char **allow_out);
