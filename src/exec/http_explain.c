/* What became of a request, in one plain sentence: which host, what went wrong and, where that is possible,
 * that the request may have taken effect although no reply came. */
#include "exec/http_transfer.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "exec/result.h"

#define RETRY_AFTER_MAX_S 86400

int
http_status(CURL *easy)
{
	long status = 0;

	if (easy != NULL)
		curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
	return status >= 200 ? (int)status : 0;
}

bool
http_status_redirects(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* libcurl treats a length that overflows as none at all, and would pass off a reply that was cut short as
 * whole. */
bool
http_header_fine(struct http_transfer *t, const char *line, size_t n)
{
	static const char name[] = "content-length:";
	size_t at = sizeof name - 1, digits = 0;

	if (n < at || strncasecmp(line, name, at) != 0)
		return true;
	for (; at < n && strchr(" \t0", line[at]) != NULL; at++)
		;
	for (; at < n && line[at] >= '0' && line[at] <= '9'; at++)
		digits++;
	t->length_overflow = digits > 18; /* 2^63 has 19 */
	return !t->length_overflow;
}

bool
http_sent(const struct http_transfer *t)
{
	long bytes = 0;

	if (t->easy != NULL)
		curl_easy_getinfo(t->easy, CURLINFO_REQUEST_SIZE, &bytes);
	return bytes > 0;
}

/* Once it is sent, a request that is not harmless by definition may have done its
 * work although we never heard. */
static const char *
doubt(const struct http_transfer *t)
{
	const char *m = t->request.method;

	if (!http_sent(t) || strcmp(m, "GET") == 0 || strcmp(m, "HEAD") == 0 || strcmp(m, "OPTIONS") == 0)
		return "";
	return "; the request had been sent and may have taken effect";
}

static void
explain_stop(const struct http_transfer *t, int status, const char *peer, struct pgrab_result *result)
{
	const char *word = stop_text(t->stopped);

	if (status != 0)
		result_fail(
		    result, "%s while reading the reply (HTTP %d) of %s%s", word, status, peer, doubt(t));
	else
		result_fail(result, "%s while waiting for %s%s", word, peer, doubt(t));
}

static const struct {
	CURLcode code;
	const char *what; /* comes before "host port 80: reason" */
} failures[] = {
    {CURLE_COULDNT_RESOLVE_HOST, "could not find the address of"},
    {CURLE_COULDNT_CONNECT, "could not connect to"},
    {CURLE_OPERATION_TIMEDOUT, "timed out connecting to"}, /* the only time limit that libcurl is given */
    {CURLE_SSL_CONNECT_ERROR, "could not make a TLS connection to"},
    {CURLE_PEER_FAILED_VERIFICATION, "could not trust the TLS certificate of"},
    {CURLE_GOT_NOTHING, "lost the connection to"},
    {CURLE_SEND_ERROR, "lost the connection to"},
    {CURLE_RECV_ERROR, "lost the connection to"},
    {CURLE_PARTIAL_FILE, "lost the connection to"},
    {CURLE_WEIRD_SERVER_REPLY, "could not understand the reply of"},
    {CURLE_UNSUPPORTED_PROTOCOL, "could not understand the reply of"}, /* HTTP/0.9 */
    {CURLE_BAD_CONTENT_ENCODING, "could not unpack the reply of"},
};

static const char *
failure_word(CURLcode code)
{
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		if (failures[i].code == code)
			return failures[i].what;
	}
	return "the request failed at";
}

static const char *
failure_reason(const struct http_transfer *t, CURLcode code, char *text, size_t size)
{
	long os_errno = 0;

	if (t->easy != NULL)
		curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os_errno);
	if (code == CURLE_COULDNT_CONNECT && t->socket_errno != 0)
		os_errno = t->socket_errno;
	if (code == CURLE_COULDNT_CONNECT && os_errno != 0)
		return strerror_r((int)os_errno, text, size);
	return t->detail[0] != '\0' ? t->detail : curl_easy_strerror(code);
}

void
http_explain(const struct http_transfer *t, CURLcode code, struct pgrab_result *result)
{
	int status = http_status(t->easy);
	char peer[256], text[128], reply[32] = "";

	http_request_peer(&t->request, peer, sizeof(peer));
	if (status != 0)
		snprintf(reply, sizeof(reply), "HTTP %d, then: ", status);
	if (t->stopped != PGRAB_STOP_NONE)
		explain_stop(t, status, peer, result);
	else if (t->body_bytes > HTTP_BODY_MAX)
		result_fail(result, "HTTP %d, but the reply is larger than %d MiB", status,
		    HTTP_BODY_MAX / 1024 / 1024);
	else if (t->length_overflow)
		result_fail(result,
		    "could not understand the reply of %s: HTTP %d with a Content-Length that is not a "
		    "number of bytes%s",
		    peer, status, doubt(t));
	else if (t->header_bytes > HTTP_HEADERS_MAX)
		result_fail(result, "the headers of the reply are larger than %d KiB%s",
		    HTTP_HEADERS_MAX / 1024, doubt(t));
	else if (code == CURLE_COULDNT_CONNECT && t->refused[0] != '\0')
		result_fail(result, "not connected to %s: %s", peer, t->refused);
	else
		result_fail(result, "%s%s %s: %s%s", reply, failure_word(code), peer,
		    failure_reason(t, code, text, sizeof(text)), doubt(t));
}

/* A server that is overloaded may say for how long; we believe up to a day. */
static int64_t
retry_after_us(const struct http_transfer *t, int status)
{
	curl_off_t s = 0;

	if (status != 429 && status != 503)
		return 0;
	curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &s);
	return (s < 0 ? 0 : s < RETRY_AFTER_MAX_S ? s : RETRY_AFTER_MAX_S) * US_PER_S;
}

void
http_judge(const struct http_transfer *t, struct pgrab_result *result)
{
	int status = http_status(t->easy);
	char text[300], wait[32] = "";
	char *location = NULL;

	curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_URL, &location);
	result->succeeded = http_request_expects(&t->request, status);
	if (result->succeeded)
		return;
	if (http_status_redirects(status) && location != NULL && !t->request.follow) {
		http_url_show(location, text, sizeof(text));
		result_fail(
		    result, "redirect (%d) to %s not followed; set args.follow to allow it", status, text);
	} else {
		http_request_expected(&t->request, text, sizeof(text));
		result->retry_after_us = retry_after_us(t, status);
		if (result->retry_after_us > 0)
			snprintf(wait, sizeof wait, "; Retry-After %lld s",
			    (long long)(result->retry_after_us / US_PER_S));
		result_fail(result, "HTTP %d, expected %s%s", status, text, wait);
	}
}
