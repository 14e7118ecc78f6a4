/*
 * From a task's command and args to an HTTP request.  Everything a user wrote is checked here: the scheme
 * (http and https only), the method (a token), header names (tokens) and values (no control characters, so no
 * second header hides in one), statuses.  An unknown argument is refused: a misspelt `expects` must not turn
 * failures into successes.
 *
 * A body without a Content-Type is sent as application/json when it begins like a JSON object or array, else
 * as text/plain.
 */
#include "exec/http_request.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/version.h"

#define URL_MAX (64 * 1024)

/* How the message is framed is for libcurl alone to say: a second opinion about it is
 * how requests are smuggled. */
static const char *const framing[] = {"connection", "content-length", "keep-alive", "proxy-connection", "te",
    "trailer", "transfer-encoding", "upgrade"};

static bool
is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)s[i]) &&
		    (s[i] == '\0' || strchr("!#$%&'*+-.^_`|~", s[i]) == NULL))
			return false;
	}
	return n > 0;
}

void
http_header_add(struct curl_slist **list, const char *line)
{
	*list = xgiven(curl_slist_append(*list, line));
}

bool
http_header_is(const char *line, const char *name)
{
	size_t n = strlen(name);

	return strncasecmp(line, name, n) == 0 && (line[n] == ':' || line[n] == ';');
}

static bool
list_has_name(const struct curl_slist *list, const char *name)
{
	for (; list != NULL; list = list->next) {
		if (http_header_is(list->data, name))
			return true;
	}
	return false;
}

static enum rc
set_method(struct http_request *r, const char *value, struct err *err)
{
	static const char *const usual[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};
	size_t n = strlen(value);

	if (!is_token(value, n) || n > HTTP_METHOD_MAX || strcasecmp(value, "CONNECT") == 0)
		return err_set(
		    err, RC_BAD, "args.method \"%.40s\" is not a method; use GET, POST, PUT, ...", value);
	memcpy(r->method, value, n + 1);
	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++) {
		if (strcasecmp(value, usual[i]) == 0)
			memcpy(r->method, usual[i], n + 1);
	}
	return RC_OK;
}

static enum rc
check_header(const char *name, size_t n, const char *value, struct err *err)
{
	if (!is_token(name, n))
		return err_set(
		    err, RC_BAD, "args.headers: \"%.*s\" is not a header name", (int)(n > 60 ? 60 : n), name);
	for (size_t i = 0; i < sizeof(framing) / sizeof(framing[0]); i++) {
		if (strlen(framing[i]) == n && strncasecmp(name, framing[i], n) == 0)
			return err_set(
			    err, RC_BAD, "args.headers: %s cannot be set, pgrab sets it", framing[i]);
	}
	for (const unsigned char *p = (const unsigned char *)value; *p != '\0'; p++) {
		if ((*p < 0x20 && *p != '\t') || *p == 0x7f)
			return err_set(err, RC_BAD,
			    "args.headers: the value of %.*s has a control character (byte 0x%02x) in it",
			    (int)(n > 60 ? 60 : n), name, *p);
	}
	return RC_OK;
}

/* One member of args.headers, "Name=text". */
static enum rc
add_header(struct http_request *r, const char *member, struct err *err)
{
	const char *eq = strchr(member, '=');
	const char *value;
	AUTO_FREE char *line = NULL;
	size_t n;
	enum rc rc;

	if (eq == NULL)
		return err_set(err, RC_BAD, "args.headers must be an object: {\"Name\": \"value\"}");
	n = (size_t)(eq - member);
	value = eq + 1 + strspn(eq + 1, " \t");
	rc = check_header(member, n, value, err);
	if (rc != RC_OK)
		return rc;
	/* libcurl leaves the header out for "Name:"; "Name;" sends it empty */
	line = *value == '\0' ? xasprintf("%.*s;", (int)n, member)
			      : xasprintf("%.*s: %s", (int)n, member, value);
	http_header_add(&r->own_headers, line);
	return RC_OK;
}

static enum rc
set_body(struct http_request *r, const char *value, struct err *err)
{
	if (r->body != NULL)
		return err_set(err, RC_BAD,
		    "args.body must be one text, not an array or an object; for JSON write it "
		    "as a string: (jsonb ...)::text");
	r->body = value;
	return RC_OK;
}

/* "204" or "2xx" of n characters. */
static bool
parse_range(const char *s, size_t n, struct http_range *out)
{
	if (n != 3 || s[0] < '1' || s[0] > '5')
		return false;
	if ((s[1] == 'x' || s[1] == 'X') && (s[2] == 'x' || s[2] == 'X')) {
		*out = (struct http_range){(s[0] - '0') * 100, (s[0] - '0') * 100 + 99};
		return true;
	}
	if (!isdigit((unsigned char)s[1]) || !isdigit((unsigned char)s[2]))
		return false;
	out->low = out->high = (s[0] - '0') * 100 + (s[1] - '0') * 10 + (s[2] - '0');
	return true;
}

/* One element of args.expect, itself perhaps a list: "200", "2xx, 404". */
static enum rc
add_expect(struct http_request *r, const char *value, struct err *err)
{
	const char *p = value;
	size_t n;

	for (;;) {
		p += strspn(p, ", ");
		n = strcspn(p, ", ");
		if (n == 0)
			return RC_OK;
		if (r->n_expect == HTTP_EXPECT_MAX)
			return err_set(err, RC_BAD, "args.expect: at most %d statuses", HTTP_EXPECT_MAX);
		if (!parse_range(p, n, &r->expect[r->n_expect]))
			return err_set(err, RC_BAD,
			    "args.expect: \"%.40s\" is not a status; write 200, or 2xx for a class, or a "
			    "list of them",
			    value);
		r->n_expect++;
		p += n;
	}
}

static enum rc
set_follow(struct http_request *r, const char *value, struct err *err)
{
	r->follow = strcmp(value, "true") == 0;
	if (!r->follow && strcmp(value, "false") != 0)
		return err_set(err, RC_BAD, "args.follow is \"%.40s\"; it must be true or false", value);
	return RC_OK;
}

static enum rc
set_await(struct http_request *r, const char *value, struct err *err)
{
	r->await = strcmp(value, "true") == 0;
	if (!r->await && strcmp(value, "false") != 0)
		return err_set(err, RC_BAD, "args.await is \"%.40s\"; it must be true or false", value);
	return RC_OK;
}

static const struct {
	const char *key;
	enum rc (*take)(struct http_request *r, const char *value, struct err *err);
} known_args[] = {
    {"method", set_method},
    {"headers", add_header},
    {"body", set_body},
    {"expect", add_expect},
    {"follow", set_follow},
    {"await", set_await},
};

static enum rc
take_arg(struct http_request *r, const struct pgrab_arg *arg, struct err *err)
{
	for (size_t i = 0; i < sizeof(known_args) / sizeof(known_args[0]); i++) {
		if (strcmp(known_args[i].key, arg->key) == 0)
			return known_args[i].take(r, arg->value, err);
	}
	return err_set(err, RC_BAD,
	    "kind http knows no args.%.60s; it knows method, headers, body, expect, follow, await", arg->key);
}

char *
http_url_part(const CURLU *url, CURLUPart what)
{
	unsigned flags = what == CURLUPART_URL ? CURLU_NO_DEFAULT_PORT : CURLU_DEFAULT_PORT;
	char *have = NULL, *copy;

	if (curl_url_get((CURLU *)url, what, &have, flags) != CURLUE_OK)
		return xstrdup("");
	copy = xstrdup(have);
	curl_free(have);
	return copy;
}

bool
http_url_is(const CURLU *url, const char *scheme)
{
	AUTO_FREE char *have = http_url_part(url, CURLUPART_SCHEME);

	return strcasecmp(have, scheme) == 0;
}

static enum rc
set_url(CURLU *url, const char *text, struct err *err)
{
	CURLUcode code;

	if (text[0] == '\0')
		return err_set(err, RC_BAD, "command is empty; for kind http it is the URL");
	if (strlen(text) > URL_MAX)
		return err_set(err, RC_BAD, "command is longer than %d bytes", URL_MAX);
	code = curl_url_set(url, CURLUPART_URL, text, CURLU_NON_SUPPORT_SCHEME);
	if (code == CURLUE_BAD_SCHEME)
		return err_set(err, RC_BAD, "command must begin with http:// or https://");
	if (code != CURLUE_OK)
		return err_set(err, RC_BAD, "command is not a URL: %s", curl_url_strerror(code));
	if (!http_url_is(url, "http") && !http_url_is(url, "https"))
		return err_set(
		    err, RC_BAD, "command must begin with http:// or https://; no other scheme is supported");
	return RC_OK;
}

static enum rc
settle(struct http_request *r, struct err *err)
{
	if (r->method[0] == '\0')
		strcpy(r->method, r->body == NULL ? "GET" : "POST");
	if (strcmp(r->method, "HEAD") == 0 && r->body != NULL)
		return err_set(err, RC_BAD, "a HEAD request cannot have args.body");
	if (r->await && r->follow)
		return err_set(err, RC_BAD,
		    "args.follow and args.await do not go together: a redirect would give the token of the "
		    "callback to another host");
	if (r->n_expect == 0)
		r->expect[r->n_expect++] = (struct http_range){200, 299};
	return RC_OK;
}

enum rc
http_request_init(struct http_request *r, const struct pgrab_run *run, struct err *err)
{
	enum rc rc;

	*r = (struct http_request){.url = xgiven(curl_url())};
	rc = set_url(r->url, run->command, err);
	for (size_t i = 0; rc == RC_OK && i < run->n_args; i++)
		rc = take_arg(r, &run->args[i], err);
	if (rc == RC_OK)
		rc = settle(r, err);
	return rc;
}

void
http_request_fini(struct http_request *r)
{
	curl_url_cleanup(r->url);
	curl_slist_free_all(r->own_headers);
	*r = (struct http_request){0};
}

static const char *
body_type(const char *body)
{
	body += strspn(body, " \t\r\n");
	return *body == '{' || *body == '[' ? "application/json" : "text/plain; charset=utf-8";
}

static void
add_unless_set(struct curl_slist **list, const char *name, const char *value)
{
	AUTO_FREE char *line = xasprintf("%s:%s%s", name, value[0] == '\0' ? "" : " ", value);

	if (!list_has_name(*list, name))
		http_header_add(list, line);
}

/* The token goes with the address, and by itself, for those who answer in SQL. */
static void
add_callback(struct curl_slist **list, const struct http_request *r, const struct pgrab_run *run)
{
	AUTO_FREE char *url = NULL;

	if (!r->await || run->proof == NULL)
		return;
	add_unless_set(list, "Pgrab-Token", run->proof);
	if (r->callback_url == NULL)
		return;
	url = xasprintf("%s/callback/%" PRId64 "/%s", r->callback_url, run->task_id, run->proof);
	add_unless_set(list, "Pgrab-Callback", url);
}

struct curl_slist *
http_request_headers(const struct http_request *r, const struct pgrab_run *run)
{
	char task_id[24], attempt[16], agent[80], key[80];
	const char *const ours[][2] = {
	    {"User-Agent", agent},
	    {"Connection", "close"},
	    {"Expect", ""}, /* leaves it out: waiting for "100 Continue" only costs a second */
	    {"Pgrab-Task", task_id},
	    {"Pgrab-Attempt", attempt},
	    {"Pgrab-Fence", run->fence},
	    {"Pgrab-Fire", run->fire_at},
	    {"Idempotency-Key", key},
	};
	struct curl_slist *list = NULL;

	snprintf(agent, sizeof agent, "pgrab/%s", version_text());
	snprintf(task_id, sizeof task_id, "%" PRId64, run->task_id);
	snprintf(attempt, sizeof attempt, "%" PRId32, run->attempt);
	snprintf(key, sizeof key, "%" PRId64 "-%s", run->task_id, run->fire_at);
	for (const struct curl_slist *h = r->own_headers; h != NULL; h = h->next)
		http_header_add(&list, h->data);
	for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
		add_unless_set(&list, ours[i][0], ours[i][1]);
	if (run->traceparent != NULL)
		add_unless_set(&list, "traceparent", run->traceparent);
	if (r->body != NULL)
		add_unless_set(&list, "Content-Type", body_type(r->body));
	add_callback(&list, r, run);
	return list;
}
