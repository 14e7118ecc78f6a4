/*
 * One hop of a request of kind http: what libcurl is told, and what it tells.
 *
 * The easy handle is made for one hop: up to 8.0 libcurl treats a first header line that begins with a blank
 * as a continuation of the last header of the previous reply, which is freed memory.
 *
 * No connection is used twice: when a kept one turns out to be dead, libcurl silently sends the request again
 * on a new one, and a server that took the first and died over it would be asked to do its work twice.
 * Nothing else is retried here either.
 *
 * No netrc, no cookies, no other protocol.  The proxy variables of the node's own environment (http_proxy,
 * https_proxy, no_proxy) do apply; the proxy then looks up names, so it and not http_guard.c judges their
 * addresses.  A host that http_hosts allows by its address only is connected to directly.  At most
 * HTTP_BODY_MAX bytes are read, counted after unpacking, and HTTP_HEADERS_MAX of headers.
 */
#include "exec/http_transfer.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

#define CONNECT_TIMEOUT_MS 10000L

static size_t
on_header(char *data, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;

	t->header_bytes += n * size;
	return t->header_bytes > HTTP_HEADERS_MAX || !http_header_fine(t, data, n * size) ? 0 : n * size;
}

/* Another reply will follow this one. */
static bool
leads_on(const struct http_transfer *t)
{
	struct curl_header *location;

	return t->request.follow && http_status_redirects(http_status(t->easy)) &&
	       curl_easy_header(t->easy, "Location", 0, CURLH_HEADER, -1, &location) == CURLHE_OK &&
	       *location->value != '\0';
}

static size_t
on_body(char *data, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;

	t->body_bytes += n * size;
	if (t->body_bytes > HTTP_BODY_MAX)
		return 0;
	if (!leads_on(t))
		t->host->output(t->host->ctx, data, n * size);
	return n * size;
}

static curl_socket_t
on_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_transfer *t = arg;
	int fd;

	/* A node that was frozen opens a connection before it is told that it may not act any more. */
	t->stopped = t->host->stop(t->host->ctx);
	if (t->stopped != PGRAB_STOP_NONE)
		return CURL_SOCKET_BAD;
	t->address_len = address->addrlen < sizeof t->address ? address->addrlen : sizeof t->address;
	memcpy(&t->address, &address->addr, t->address_len);
	if (http_address_refused(t->hosts, t->listed, &address->addr, t->refused, sizeof(t->refused)))
		return CURL_SOCKET_BAD;
	fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
	if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
		t->socket_errno = errno; /* a lack of ours, not of the address family */
	t->fd[1] = t->fd[0];
	t->fd[0] = fd;
	return fd < 0 ? CURL_SOCKET_BAD : fd;
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
	SET(CURLOPT_CLOSESOCKETFUNCTION, http_on_close);
	SET(CURLOPT_CLOSESOCKETDATA, t->http);
	SET(CURLOPT_ERRORBUFFER, t->detail);
	SET(CURLOPT_PRIVATE, t);
	return !bad;
}

static bool
set_request(struct http_transfer *t, CURLSH *share)
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
	SET(CURLOPT_SHARE, share);
	SET(CURLOPT_CURLU, r->url);
	SET(CURLOPT_HTTPHEADER, t->headers);
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

/* False: not to this host; t->refused says why. */
static bool
may_go(struct http_transfer *t)
{
	char host[256];
	uint16_t port;

	http_request_place(&t->request, host, sizeof host, &port);
	return !http_host_refused(t->hosts, host, port, &t->listed, t->refused, sizeof(t->refused));
}

CURLcode
http_hop_make(struct http_transfer *t, CURLSH *share)
{
	http_hop_free(t); /* the one before */
	if (!may_go(t))
		return CURLE_COULDNT_CONNECT;
	t->headers = http_request_headers(&t->request, t->run);
	t->easy = xgiven(curl_easy_init());
	t->detail[0] = '\0';
	return set_callbacks(t) && set_request(t, share) ? CURLE_OK : CURLE_OUT_OF_MEMORY;
}

void
http_hop_free(struct http_transfer *t)
{
	curl_easy_cleanup(t->easy);
	curl_slist_free_all(t->headers);
	t->easy = NULL;
	t->headers = NULL;
}

/* Where to go on after this reply; NULL: nowhere. */
const char *
http_hop_next(const struct http_transfer *t)
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
bool
http_could_not_start(const struct http_transfer *t, CURLcode code)
{
	return !http_sent(t) &&
	       (code == CURLE_OUT_OF_MEMORY ||
		   (code == CURLE_COULDNT_CONNECT && (t->socket_errno != 0 || lacks_ports(t))));
}
