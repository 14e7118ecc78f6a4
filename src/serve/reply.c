#include "serve/call.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "serve/settings.h"

const char *
call_header(const struct call *c, const char *name)
{
	return evhttp_find_header(evhttp_request_get_input_headers(c->req), name);
}

void
reply_header(struct call *c, const char *name, const char *value)
{
	/* Refused by libevent only when it holds a line break, and none of ours does. */
	(void)evhttp_add_header(evhttp_request_get_output_headers(c->req), name, value);
}

static void
put_cookies(struct call *c)
{
	char cookie[100];

	if (c->new_cookie && call_is_page(c)) {
		snprintf(cookie, sizeof cookie, "pgrab_csrf=%s; Path=/; HttpOnly; SameSite=Strict", c->csrf);
		reply_header(c, "Set-Cookie", cookie);
	}
	if (c->cookie != NULL)
		reply_header(c, "Set-Cookie", c->cookie);
}

void
reply_headers(struct call *c)
{
	reply_header(c, "X-Request-Id", c->id);
	reply_header(c, "X-Content-Type-Options", "nosniff");
	reply_header(c, "Content-Security-Policy",
	    "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' "
	    "data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'");
	reply_header(c, "Referrer-Policy", "same-origin");
	reply_header(c, "Cache-Control",
	    strncmp(c->uri, "/static/", 8) == 0 && c->status == 200 ? "max-age=3600" : "no-store");
	if (c->type != NULL)
		reply_header(c, "Content-Type", c->type);
	if (c->location != NULL)
		reply_header(c, "Location", c->location);
	if (c->link != NULL)
		reply_header(c, "Link", c->link);
	if (c->searched != NULL)
		reply_header(c, "Pgrab-Searched", c->searched);
	if (c->allow != NULL)
		reply_header(c, "Allow", c->allow);
	if (c->status == 401)
		reply_header(c, "WWW-Authenticate", "Bearer");
	if (c->last)
		reply_header(c, "Connection", "close");
	if (c->status == 503 || c->status == 429)
		reply_header(c, "Retry-After", "1");
	put_cookies(c);
}

/* Without the query of the URI, which may hold what must not get into a log; at the door of callbacks,
 * without the token. */
static int
shown(const struct call *c)
{
	const char *door = "/callback/";
	size_t n = strlen(door);

	if (c->set->callback_listen != NULL && strncmp(c->uri, door, n) == 0)
		return (int)(n + strcspn(c->uri + n, "/?"));
	return (int)strcspn(c->uri, "?");
}

void
reply_log(const struct call *c, int64_t us)
{
	log_info("request",
	    "id=%s peer=%s method=%s path=\"%s%.*s\" status=%d bytes=%zu ms=%lld.%lld role=%s", c->id,
	    c->peer, c->method, c->base, shown(c), c->uri, c->status, c->out.len, (long long)(us / 1000),
	    (long long)(us % 1000 / 100), c->role >= 0 ? c->set->roles[c->role].name : "-");
}
