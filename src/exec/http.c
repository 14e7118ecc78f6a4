/*
 * Kind http: one request, and whether its reply is what the task expects.
 *
 * One libcurl multi handle per worker, kept between runs for its DNS cache, and a share for TLS
 * sessions.  The easy handle is made for one request: up to 8.0 libcurl treats a first header line that
 * begins with a blank as a continuation of the last header of the previous reply, which is freed memory.
 * The worker waits in curl_multi_poll on the transfer and on the host's stop_fd together; the node
 * enforces the run's time limit.
 *
 * No connection is used twice: when a kept one turns out to be dead, libcurl silently sends the request again
 * on a new one, and a server that took the first and died over it would be asked to do its work twice.
 * Nothing else is retried here either.  The server is asked to close the connection, and gets a moment to do
 * so: the side that closes first cannot use its port again for a minute, and a node would run out of them.
 *
 * No netrc, no cookies, no other protocol.  The proxy variables of the node's own environment (http_proxy,
 * https_proxy, no_proxy) do apply; the proxy then looks up names, so it and not http_guard.c judges their
 * addresses.  A host that http_hosts allows by its address only is connected to directly.  At most
 * HTTP_BODY_MAX bytes are read, counted after unpacking, and HTTP_HEADERS_MAX of headers.
 */
#include "exec/exec.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "exec/bounds.h"
#include "exec/http_guard.h"
#include "exec/http_request.h"
#include "exec/http_transfer.h"
#include "exec/result.h"

#define REDIRECTS_MAX      5
#define CONNECT_TIMEOUT_MS 10000L
#define CLOSE_MS           20    /* for the server to close the connection first */
#define WAIT_MAX_MS        60000 /* every wait has an end; a needless wake-up does no harm */

struct client {
	CURLM *multi;
	CURLSH *share;
	const struct exec_env *env;
};

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_code; /* written inside global_once only */

static void
global_init(void)
{
	global_code = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static void
close_http(void *self)
{
	struct client *c = self;

	curl_multi_cleanup(c->multi);
	curl_share_cleanup(c->share);
	free(c);
}

static void *
open_http(const void *internal, char *err, size_t err_size)
{
	struct client *c;

	pthread_once(&global_once, global_init);
	if (global_code != CURLE_OK) {
		snprintf(err, err_size, "libcurl cannot be used: %s", curl_easy_strerror(global_code));
		return NULL;
	}
	c = xcalloc(1, sizeof(*c));
	c->env = internal;
	c->multi = curl_multi_init();
	c->share = curl_share_init(); /* of one thread: no locks */
	if (c->multi == NULL || c->share == NULL ||
	    curl_share_setopt(c->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION) != CURLSHE_OK) {
		snprintf(err, err_size, "libcurl could not be started: out of memory");
		close_http(c);
		return NULL;
	}
	return c;
}

static size_t
on_header(char *data, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;

	t->header_bytes += n * size;
	return t->header_bytes > HTTP_HEADERS_MAX || !http_header_fine(t, data, n * size) ? 0 : n * size;
}

static size_t
on_body(char *data, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;

	t->body_bytes += n * size;
	if (t->body_bytes > HTTP_BODY_MAX)
		return 0;
	if (!(t->request.follow && http_status_redirects(http_status(t->easy))))
		t->host->output(t->host->ctx, data, n * size);
	return n * size;
}

static curl_socket_t
on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_transfer *t = arg;
	int fd;

	t->address_len = address->addrlen < sizeof t->address ? address->addrlen : sizeof t->address;
	memcpy(&t->address, &address->addr, t->address_len);
	if (http_address_refused(t->hosts, t->listed, &address->addr, t->refused, sizeof(t->refused)))
		return CURL_SOCKET_BAD;
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
		t->socket_errno = errno; /* a lack of ours, not of the address family */
	return fd < 0 ? CURL_SOCKET_BAD : fd;
}

/* A whole reply has come: the server is about to close, too. */
static int
on_close(void *arg, curl_socket_t fd)
{
	struct http_transfer *t = arg;
	struct pollfd p = {.fd = fd, .events = POLLRDHUP};

	if (t->stopped == PGRAB_STOP_NONE && http_status(t->easy) != 0)
		(void)poll(&p, 1, CLOSE_MS);
	return close(fd);
}

static const struct {
	CURLoption option;
	long value;
} fixed_options[] = {
    {CURLOPT_NOSIGNAL, 1},   /* threads */
    {CURLOPT_QUICK_EXIT, 1}, /* a stop does not wait for a resolver thread that hangs */
    {CURLOPT_CONNECTTIMEOUT_MS, CONNECT_TIMEOUT_MS},
    {CURLOPT_FRESH_CONNECT, 1},  /* see the top */
    {CURLOPT_FORBID_REUSE, 1},   /* likewise */
    {CURLOPT_FOLLOWLOCATION, 0}, /* http_reply.c says why */
    {CURLOPT_NETRC, CURL_NETRC_IGNORED},
    {CURLOPT_HTTPAUTH, CURLAUTH_BASIC}, /* of user:password in the URL; nothing that takes a second request */
    {CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1},
    {CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2},
    {CURLOPT_TCP_KEEPALIVE, 1},
};

/* Ors the results: all that matters is whether one failed, and only lack of memory can make it fail. */
#define SET(option, value) bad |= curl_easy_setopt(t->easy, option, value) != CURLE_OK

static bool
set_callbacks(struct http_transfer *t)
{
	bool bad = false;

	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, t);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, t);
	SET(CURLOPT_OPENSOCKETFUNCTION, on_socket);
	SET(CURLOPT_OPENSOCKETDATA, t);
	SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
	SET(CURLOPT_CLOSESOCKETDATA, t);
	SET(CURLOPT_ERRORBUFFER, t->detail);
	return !bad;
}

static bool
set_request(const struct client *c, struct http_transfer *t, struct curl_slist *headers)
{
	const struct http_request *r = &t->request;
	const char *method = r->method;
	bool sends = r->body != NULL || strcmp(method, "POST") == 0 || strcmp(method, "PUT") == 0 ||
		     strcmp(method, "PATCH") == 0; /* without a body these still say Content-Length: 0 */
	bool bad = false;

	for (size_t i = 0; i < sizeof(fixed_options) / sizeof(fixed_options[0]); i++)
		SET(fixed_options[i].option, fixed_options[i].value);
	SET(CURLOPT_PROTOCOLS_STR, "http,https");
	SET(CURLOPT_ACCEPT_ENCODING, ""); /* all that this libcurl can unpack */
	SET(CURLOPT_SHARE, c->share);
	SET(CURLOPT_CURLU, r->url);
	SET(CURLOPT_HTTPHEADER, headers);
	if (!t->listed) /* the address must be on the list, and a proxy would hide it */
		SET(CURLOPT_PROXY, "");
	if (strcmp(method, "HEAD") == 0) {
		SET(CURLOPT_NOBODY, 1L);
	} else if (sends) {
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(r->body == NULL ? 0 : strlen(r->body)));
		SET(CURLOPT_POSTFIELDS, r->body == NULL ? "" : r->body);
		SET(CURLOPT_CUSTOMREQUEST, method);
	} else {
		SET(CURLOPT_CUSTOMREQUEST, method);
	}
	return !bad;
}

static CURLcode
result_of(CURLM *multi)
{
	CURLMsg *m;
	int left;

	while ((m = curl_multi_info_read(multi, &left)) != NULL) {
		if (m->msg == CURLMSG_DONE)
			return m->data.result;
	}
	return CURLE_FAILED_INIT;
}

/* Until the transfer is done or the run must stop (t->stopped). */
static CURLcode
drive(CURLM *multi, struct http_transfer *t)
{
	struct curl_waitfd stop = {.fd = t->host->stop_fd, .events = CURL_WAIT_POLLIN};
	int running = 1;

	for (;;) {
		t->stopped = t->host->stop(t->host->ctx);
		if (t->stopped == PGRAB_STOP_NONE && stop.revents != 0)
			t->stopped = PGRAB_STOP_CANCEL; /* told to stop but not why: stop, rather than spin */
		if (t->stopped != PGRAB_STOP_NONE)
			return CURLE_ABORTED_BY_CALLBACK;
		if (curl_multi_perform(multi, &running) != CURLM_OK)
			return CURLE_FAILED_INIT;
		if (running == 0)
			return result_of(multi);
		if (curl_multi_poll(multi, &stop, 1, WAIT_MAX_MS, NULL) != CURLM_OK)
			return CURLE_FAILED_INIT;
	}
}

static CURLcode
exchange(struct client *c, struct http_transfer *t)
{
	struct curl_slist *headers = http_request_headers(&t->request, t->run);
	CURLcode code = CURLE_OUT_OF_MEMORY;

	curl_easy_cleanup(t->easy); /* of the hop before */
	t->easy = xgiven(curl_easy_init());
	t->detail[0] = '\0';
	if (set_callbacks(t) && set_request(c, t, headers) &&
	    curl_multi_add_handle(c->multi, t->easy) == CURLM_OK) {
		code = drive(c->multi, t);
		curl_multi_remove_handle(c->multi, t->easy);
	}
	curl_slist_free_all(headers);
	return code;
}

/* Where to go on after this reply; NULL: nowhere. */
static const char *
next_hop(const struct http_transfer *t)
{
	char *location = NULL;

	curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &location);
	return t->request.follow && http_status_redirects(http_status(t->easy)) ? location : NULL;
}

/* All ports from which this address could be reached are taken, as opposed to: no address of this machine
 * reaches it, which another protocol would find out as well. */
static bool
lacks_ports(const struct http_transfer *t)
{
	long code = 0;
	int fd;
	bool reachable;

	curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &code);
	if (code != EADDRNOTAVAIL)
		return false;
	fd = socket(t->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	reachable = fd >= 0 && connect(fd, (const struct sockaddr *)&t->address, t->address_len) == 0;
	close_fd(&fd);
	return reachable;
}

/* Did this machine lack memory, descriptors or ports?  That is not the task's fault. */
static bool
could_not_start(const struct http_transfer *t, CURLcode code)
{
	return !http_sent(t) &&
	       (code == CURLE_OUT_OF_MEMORY ||
		   (code == CURLE_COULDNT_CONNECT && (t->socket_errno != 0 || lacks_ports(t))));
}

/* False: not to this host; t->refused says why. */
static bool
may_go(struct http_transfer *t)
{
	char host[256];
	uint16_t port;

	http_request_place(&t->request, host, sizeof host, &port);
	return !http_host_refused(t->hosts, host, port, &t->listed, t->refused, sizeof(t->refused));
}

/* The request and, if wanted, where redirects lead. */
static void
converse(struct client *c, struct http_transfer *t, struct pgrab_result *result)
{
	const char *location;
	struct err err;
	CURLcode code;

	for (int hops = 0;; hops++) {
		code = may_go(t) ? exchange(c, t) : CURLE_COULDNT_CONNECT;
		if (code != CURLE_OK) {
			http_explain(t, code, result);
			result->not_started = hops == 0 && could_not_start(t, code);
			return;
		}
		location = next_hop(t);
		if (location == NULL) {
			http_judge(t, result);
			return;
		}
		if (hops == REDIRECTS_MAX) {
			result_fail(result, "more than %d redirects", REDIRECTS_MAX);
			return;
		}
		if (http_request_redirect(&t->request, http_status(t->easy), location, &err) != RC_OK) {
			result_fail(result, "%s", err.text);
			return;
		}
	}
}

static void
run_http(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct client *c = self;
	struct http_transfer t = {
	    .run = run, .host = host, .hosts = &bounds_of(c->env->bounds, run->owner)->hosts};
	struct err err;

	if (http_request_init(&t.request, run, &err) == RC_OK) {
		converse(c, &t, result);
		result->exit_code = http_status(t.easy);
		result->has_exit_code = result->exit_code != 0;
	} else {
		result_fail(result, "%s", err.text);
	}
	curl_easy_cleanup(t.easy);
	http_request_fini(&t.request);
}

const struct pgrab_executor exec_http = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "http",
    .summary = "send an HTTP request and check the status of the reply",
    .open = open_http,
    .close = close_http,
    .run = run_http,
};
