/* A request on its way: made by the HTTP thread, answered by an answerer, sent by the HTTP thread.
 * It belongs to the thread that has it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <sys/queue.h>

#include <event2/http.h>
#include <event2/keyvalq_struct.h>

#include "base/buf.h"
#include "base/mailbox.h"
#include "db/pg.h"

#define CALL_PATH_PARTS   6
#define CALL_BODY_MAX     (1024 * 1024)
#define CALLBACK_BODY_MAX (256 * 1024) /* at the door of callbacks */
#define CALL_OWN_ROLE     (-1)

struct route;
struct serve_settings;
struct metrics;
struct cache;
struct fleet;

struct call {
	struct mail mail;                 /* first */
	struct evhttp_request *req;       /* the HTTP thread only */
	const struct serve_settings *set; /* read only while the program serves */
	struct metrics *metrics;          /* has its own lock */
	struct cache *cache;              /* so has it; NULL: nothing is kept */
	struct fleet *fleet;              /* and it; NULL: there is only one database */
	size_t database;                  /* as serve_login() */
	char base[60];                    /* its paths begin with this: "/db/NAME"; "": that of dsn */
	const struct route *route;
	char id[65];   /* of the request */
	char peer[64]; /* "127.0.0.1", "unix:uid" */
	int64_t begun_us;
	char *method, *uri;
	char *part[CALL_PATH_PARTS]; /* the parts at the stars of the route, decoded */
	struct evkeyvalq query;      /* of the URI, decoded */
	struct evkeyvalq form;       /* of the body, when it is a form */
	char *body;                  /* NUL-terminated; NULL: none */
	const char *accept;          /* headers of the request; NULL: none */
	const char *traceparent;
	size_t body_len;
	int role;        /* index of a [role], or CALL_OWN_ROLE */
	char csrf[33];   /* what a form of this client must send back */
	bool secure;     /* it reached the proxy over TLS */
	bool new_cookie; /* csrf is to be set */
	bool last;       /* the connection is closed behind the answer */
	char *token;     /* to be looked up before anything is done; NULL: none */
	/* for an answer that goes on: see stream.h */
	struct stream *stream; /* the HTTP thread only */
	bool streaming;        /* set by the handler */
	char cursor[64];       /* how far it has come */
	char *nodes;           /* what was last sent about the nodes */
	/* the answer */
	int status;
	const char *type;
	const char *allow; /* of a 405: methods, or NULL */
	char methods[40];
	char *location; /* of a 201 or 303 */
	char *link;     /* where the next page is */
	char *searched; /* how far an unfinished search came; NULL: it found a whole page */
	char *cookie;   /* further Set-Cookie */
	struct buf out;
};

void call_free(struct call *c);

/* An answer: called in an answerer, with the connection of the call's role.  Fills it in. */
typedef void route_fn(struct call *c, struct db *db);

/* A header of the request; NULL: it is not there.  The HTTP thread, as all that is said of headers here. */
const char *call_header(const struct call *c, const char *name);
/* What every answer has: its headers, and its line in the log. */
void reply_header(struct call *c, const char *name, const char *value);
void reply_headers(struct call *c);
void reply_log(const struct call *c, int64_t us); /* us: how long it took */

/* /db/NAME before a path says which database it is of.  It is taken off before a request is looked at, and
 * put before the paths of the answer when it is sent: what is in between knows nothing of it.  False: there
 * is no such database, and c holds the answer. */
bool prefix_take(struct call *c);
void prefix_put(struct call *c);

/* The value of a parameter of the URI or of the form; NULL: it is not there, or empty. */
const char *call_query(const struct call *c, const char *name);
const char *call_form(const struct call *c, const char *name);

/* Is that parameter of the URI one of these words (ended by NULL), or not there?  False: c holds the
 * answer. */
bool call_is_word(struct call *c, const char *name, const char *const *words);

/* In which time zone its answer is: of a page the one that was asked for, or that of the settings. */
const char *call_zone(const struct call *c);

#define MOMENT_MAX 64
/* A parameter of the URI that is a time, or one of today ("03:00"), or how long ago ("2h"), for
 * pgrab_tool.moment(); text is room. */
const char *call_moment(const struct call *c, const char *name, char text[MOMENT_MAX]);

/* A problem, as RFC 9457 describes it.  hint: what to do about it, or NULL.  Returns
 * false, for the caller that refuses. */
bool call_problem(struct call *c, int status, const char *detail, const char *hint);

/* The same for an error of the database. */
void call_failed(struct call *c, enum rc rc, const struct err *err);

/* The rows of a text of src/db/sql: false when the database refused, and c holds the answer. */
bool
call_ask(struct call *c, struct db *db, const char *sql, int n, const char *const *params, PGresult **out);
/* The same of a list or summary: it may be a second old, see cache.h. */
bool call_ask_shared(
    struct call *c, struct db *db, const char *sql, int n, const char *const *params, PGresult **out);

/* Did the search for a page of a list end before there were enough rows?  Then the last row is none: it says
 * how far the search came, and where it goes on. */
bool call_search_cut(struct call *c, const PGresult *r);

/* This request's URI with that cursor, for the caller to free. */
char *call_next(const struct call *c, const char *cursor);

/* Does the client want a page rather than JSON? */
bool call_is_page(const struct call *c);
