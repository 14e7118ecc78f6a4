/* One run of kind http: shared by http.c, which has all of them, http_hop.c, which makes their requests, and
 * http_explain.c, which says how they went. */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "exec/http.h"
#include "exec/http_guard.h"
#include "exec/http_request.h"
#include "pgrab/executor.h"

#define HTTP_BODY_MAX    (16 * 1024 * 1024) /* counted after unpacking */
#define HTTP_HEADERS_MAX (256 * 1024)

struct http_transfer {
	TAILQ_ENTRY(http_transfer) link;
	struct http *http;
	http_ended_fn *ended;
	struct pgrab_result result;
	int hops;      /* redirects that were followed */
	CURLcode code; /* how the last hop ended */
	struct http_request request;
	const struct pgrab_run *run;
	const struct pgrab_host *host;
	const struct http_hosts *hosts;
	CURL *easy;                      /* of the last hop; NULL: there was none */
	struct curl_slist *headers;      /* that it sends */
	bool listed;                     /* the host of this hop is on the list by its name */
	size_t header_bytes, body_bytes; /* of all hops */
	bool length_overflow;            /* the reply claims a length that no number holds */
	enum pgrab_stop stopped;
	struct sockaddr_storage address; /* the last that was tried */
	socklen_t address_len;
	int fd[2];                    /* the socket to it, and the one before: two may be tried at once */
	int socket_errno;             /* why no socket could be opened, or 0 */
	char refused[128];            /* why the address is not connected to, or "" */
	char detail[CURL_ERROR_SIZE]; /* libcurl's own words */
};

TAILQ_HEAD(http_transfers, http_transfer);

/* For libcurl, which may close a socket long after its transfer is gone.  http: a struct http. */
int http_on_close(void *http, curl_socket_t fd);

/* Makes the handle of the next hop; not CURLE_OK: it may not or cannot be made. */
CURLcode http_hop_make(struct http_transfer *t, CURLSH *share);
void http_hop_free(struct http_transfer *t);
/* Where to go on after this reply; NULL: nowhere. */
const char *http_hop_next(const struct http_transfer *t);
/* Did this machine lack memory, descriptors or ports?  That is not the task's fault. */
bool http_could_not_start(const struct http_transfer *t, CURLcode code);

/* Of the reply that came or is coming in; 0 while there is none, not counting interim replies (1xx). */
int http_status(CURL *easy);
bool http_status_redirects(int status);

/* Looks at one line of the reply's head; false: do not read on. */
bool http_header_fine(struct http_transfer *t, const char *line, size_t n);

bool http_sent(const struct http_transfer *t); /* at least a part of the request left this machine */

/* Writes into result why the transfer broke off. */
void http_explain(const struct http_transfer *t, CURLcode code, struct pgrab_result *result);

/* The whole reply is here: writes into result whether it is what the task wants. */
void http_judge(const struct http_transfer *t, struct pgrab_result *result);
