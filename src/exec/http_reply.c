/*
 * What a reply's status and Location mean for the request that asked: was it expected, and where does a
 * redirect lead?
 *
 * Redirects are followed here and not by libcurl, because it would send the task's own headers (an API key)
 * to whatever host the redirect names, and repeat a PUT without its body.
 */
#include "exec/http_request.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/outbuf.h"

bool
http_request_expects(const struct http_request *r, int status)
{
	for (size_t i = 0; i < r->n_expect; i++) {
		if (status >= r->expect[i].low && status <= r->expect[i].high)
			return true;
	}
	return false;
}

void
http_request_expected(const struct http_request *r, char *text, size_t size)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < r->n_expect && used < size; i++) {
		const struct http_range *e = &r->expect[i];
		const char *comma = i == 0 ? "" : ", ";
		int n;

		if (e->low == e->high)
			n = snprintf(text + used, size - used, "%s%d", comma, e->low);
		else
			n = snprintf(text + used, size - used, "%s%dxx", comma, e->low / 100);
		used += (size_t)n;
	}
}

void
http_request_peer(const struct http_request *r, char *text, size_t size)
{
	AUTO_FREE char *host = http_url_part(r->url, CURLUPART_HOST);
	AUTO_FREE char *port = http_url_part(r->url, CURLUPART_PORT);

	snprintf(text, size, "%.200s port %s", host, port);
}

void
http_request_place(const struct http_request *r, char *host, size_t size, uint16_t *port_out)
{
	AUTO_FREE char *name = http_url_part(r->url, CURLUPART_HOST);
	AUTO_FREE char *port = http_url_part(r->url, CURLUPART_PORT);

	/* One that does not fit counts as none: its beginning may be a name on the list. */
	snprintf(host, size, "%s", strlen(name) < size ? name : "");
	*port_out = (uint16_t)strtoul(port, NULL, 10);
}

void
http_url_show(const char *url, char *text, size_t size)
{
	CURLU *parsed = xgiven(curl_url());
	char *whole, *printable;

	if (curl_url_set(parsed, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) == CURLUE_OK) {
		curl_url_set(parsed, CURLUPART_USER, NULL, 0);
		curl_url_set(parsed, CURLUPART_PASSWORD, NULL, 0);
		whole = http_url_part(parsed, CURLUPART_URL);
		printable = text_printable(whole, strlen(whole), size - 1);
		snprintf(text, size, "%s", printable);
		free(printable);
		free(whole);
	} else {
		snprintf(text, size, "a place that is not a URL");
	}
	curl_url_cleanup(parsed);
}

static bool
same_part(const CURLU *a, const CURLU *b, CURLUPart what)
{
	AUTO_FREE char *in_a = http_url_part(a, what);
	AUTO_FREE char *in_b = http_url_part(b, what);

	return strcasecmp(in_a, in_b) == 0;
}

static bool
same_origin(const CURLU *a, const CURLU *b)
{
	return same_part(a, b, CURLUPART_SCHEME) && same_part(a, b, CURLUPART_HOST) &&
	       same_part(a, b, CURLUPART_PORT);
}

/* Compares whole names: an Accept-Token or Content-Key may be a password. */
static bool
keep_harmless(const char *line)
{
	static const char *const harmless[] = {"Accept", "Accept-Language", "User-Agent", "Content-Type",
	    "Content-Encoding", "Content-Language"};

	for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
		if (http_header_is(line, harmless[i]))
			return true;
	}
	return false;
}

static bool
keep_without_body(const char *line)
{
	return strncasecmp(line, "Content-", 8) != 0;
}

static void
filter_headers(struct http_request *r, bool (*keep)(const char *line))
{
	struct curl_slist *kept = NULL;

	for (const struct curl_slist *h = r->own_headers; h != NULL; h = h->next) {
		if (keep(h->data))
			http_header_add(&kept, h->data);
	}
	curl_slist_free_all(r->own_headers);
	r->own_headers = kept;
}

/* RFC 9110, 15.4: 303 asks for a GET, 301 and 302 turn a POST into one, all else is repeated as it was. */
static void
change_method(struct http_request *r, int status)
{
	bool post = strcmp(r->method, "POST") == 0;

	if (strcmp(r->method, "HEAD") == 0 || !(status == 303 || (post && (status == 301 || status == 302))))
		return;
	strcpy(r->method, "GET");
	r->body = NULL;
	filter_headers(r, keep_without_body);
}

static enum rc
check_target(const CURLU *from, const CURLU *to, const char *shown, struct err *err)
{
	if (!http_url_is(to, "http") && !http_url_is(to, "https"))
		return err_set(err, RC_BAD, "redirected to %s: only http and https are requested", shown);
	if (http_url_is(from, "https") && http_url_is(to, "http"))
		return err_set(err, RC_BAD,
		    "redirected from https to %s: not followed, it would go on unencrypted", shown);
	return RC_OK;
}

/* User and password of the first URL stay with its host, as in a browser, unless the
 * redirect brings its own. */
static void
carry_login(const CURLU *from, CURLU *to)
{
	AUTO_FREE char *user = http_url_part(from, CURLUPART_USER);
	AUTO_FREE char *password = http_url_part(from, CURLUPART_PASSWORD);
	AUTO_FREE char *new_user = http_url_part(to, CURLUPART_USER);

	if (new_user[0] == '\0' && user[0] != '\0') {
		curl_url_set(to, CURLUPART_USER, user, 0); /* still encoded, as it came */
		curl_url_set(to, CURLUPART_PASSWORD, password, 0);
	}
}

enum rc
http_request_redirect(struct http_request *r, int status, const char *location, struct err *err)
{
	CURLU *to = xgiven(curl_url());
	char shown[300];
	enum rc rc;

	http_url_show(location, shown, sizeof shown);
	if (curl_url_set(to, CURLUPART_URL, location, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
		rc = err_set(err, RC_BAD, "redirected to %s", shown);
	else
		rc = check_target(r->url, to, shown, err);
	if (rc != RC_OK) {
		curl_url_cleanup(to);
		return rc;
	}
	change_method(r, status);
	if (same_origin(r->url, to))
		carry_login(r->url, to);
	else
		filter_headers(r, keep_harmless);
	curl_url_cleanup(r->url);
	r->url = to;
	return RC_OK;
}
