/* An HTTP request as a task describes it, checked before a byte of it is sent.  No I/O here. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "pgrab/executor.h"

#define HTTP_METHOD_MAX 32
#define HTTP_EXPECT_MAX 32

struct http_range {
	int low, high; /* statuses, both included */
};

struct http_request {
	CURLU *url; /* where to, now; a redirect changes it */
	char method[HTTP_METHOD_MAX + 1];
	struct curl_slist *own_headers; /* the task's, as libcurl wants them */
	const char *body;               /* borrowed from the run; NULL: none */
	bool follow, await;
	const char *callback_url; /* borrowed; where answers that come later go; NULL: only to SQL */
	size_t n_expect;
	struct http_range expect[HTTP_EXPECT_MAX];
};

/* Takes command and args apart.  RC_BAD: the text says which argument is wrong and what would be right.
 * Whatever it returns, http_request_fini must follow; `run` must outlive the request. */
CHECKED enum rc http_request_init(struct http_request *r, const struct pgrab_run *run, struct err *err);
void http_request_fini(struct http_request *r);

/* The header list to send now: the task's, then ours where the task set none.  Caller frees. */
struct curl_slist *http_request_headers(const struct http_request *r, const struct pgrab_run *run);

/* Turns r into the request that a redirect asks for.  When it leads to another host, port or scheme the
 * task's headers are dropped (they may hold secrets), except those that only describe the client and the
 * body.  RC_BAD: it leads where we do not go. */
CHECKED enum rc
http_request_redirect(struct http_request *r, int status, const char *location, struct err *err);

bool http_request_expects(const struct http_request *r, int status);

/* A line of libcurl's header list is "Name: value", or "Name;". */
void http_header_add(struct curl_slist **list, const char *line);
bool http_header_is(const char *line, const char *name);

/* A part of the URL, or "" when it has none; a port is always given, but not added to the whole URL.  Caller
 * frees. */
char *http_url_part(const CURLU *url, CURLUPart what);
bool http_url_is(const CURLU *url, const char *scheme);

/* "2xx", or "200, 404": what was expected, for an error message. */
void http_request_expected(const struct http_request *r, char *text, size_t size);

/* A URL for people: without its user and password, printable, cut to size. */
void http_url_show(const char *url, char *text, size_t size);

/* The host of the URL as written ("" when it is too long for one), and its port. */
void http_request_place(const struct http_request *r, char *host, size_t size, uint16_t *port_out);

/* "host port 80": whom we talk to, for an error message. */
void http_request_peer(const struct http_request *r, char *text, size_t size);
