#include "serve/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/bufferevent.h>

#include "base/alloc.h"
#include "db/schema.h"
#include "serve/route.h"
#include "serve/settings.h"

struct guard {
	const struct serve_settings *set;
	struct peer {
		uid_t uid;
		int role;
	} * peers;
	size_t n_peers;
};

static enum rc
add_peer(struct guard *g, int role, const char *user, struct err *err)
{
	struct passwd entry, *pw = NULL;
	char memory[4096];

	/* Called at the start, when blocking holds up nothing. */
	if (getpwnam_r(user, &entry, memory, sizeof memory, &pw) != 0 || pw == NULL)
		return err_set(err, RC_BAD, "[role %s] peers: this machine has no user \"%s\"",
		    g->set->roles[role].name, user);
	g->peers = xrealloc(g->peers, (g->n_peers + 1) * sizeof *g->peers);
	g->peers[g->n_peers++] = (struct peer){pw->pw_uid, role};
	return RC_OK;
}

static enum rc
add_peers(struct guard *g, int role, struct err *err)
{
	const char *list = g->set->roles[role].peers;
	char *copy = xstrdup(list == NULL ? "" : list), *save = NULL;
	enum rc rc = RC_OK;

	for (char *user = strtok_r(copy, ", ", &save); user != NULL && rc == RC_OK;
	     user = strtok_r(NULL, ", ", &save))
		rc = add_peer(g, role, user, err);
	free(copy);
	return rc;
}

enum rc
guard_create(const struct serve_settings *set, struct guard **out, struct err *err)
{
	struct guard *g = xcalloc(1, sizeof *g);
	enum rc rc = RC_OK;

	g->set = set;
	for (size_t i = 0; i < set->n_roles && rc == RC_OK; i++)
		rc = add_peers(g, (int)i, err);
	if (rc != RC_OK)
		guard_destroy(&g);
	*out = g;
	return rc;
}

void
guard_destroy(struct guard **g)
{
	free((*g)->peers);
	free(*g);
	*g = NULL;
}

void
guard_random(char out[33])
{
	unsigned char bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		abort(); /* 16 bytes always come whole */
	for (size_t i = 0; i < sizeof bytes; i++)
		snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

static evutil_socket_t
socket_of(struct call *c)
{
	return bufferevent_getfd(evhttp_connection_get_bufferevent(evhttp_request_get_connection(c->req)));
}

/* ROLE_NONE: a user without a role here. */
#define ROLE_NONE (-2)

static int
role_of_user(const struct guard *g, uid_t uid)
{
	for (size_t i = 0; i < g->n_peers; i++) {
		if (g->peers[i].uid == uid)
			return g->peers[i].role;
	}
	return uid == 0 || uid == geteuid() ? CALL_OWN_ROLE : ROLE_NONE;
}

void
guard_peer(struct guard *g, struct call *c)
{
	struct sockaddr_storage name;
	socklen_t len = sizeof name;
	struct ucred who;

	memset(&name, 0, sizeof name);
	c->role = CALL_OWN_ROLE;
	if (getpeername(socket_of(c), (struct sockaddr *)&name, &len) != 0) {
		snprintf(c->peer, sizeof c->peer, "gone");
	} else if (name.ss_family == AF_INET) {
		inet_ntop(AF_INET, &((struct sockaddr_in *)&name)->sin_addr, c->peer, sizeof c->peer);
	} else if (name.ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&name)->sin6_addr, c->peer, sizeof c->peer);
	} else {
		len = sizeof who;
		c->role = ROLE_NONE;
		if (getsockopt(socket_of(c), SOL_SOCKET, SO_PEERCRED, &who, &len) == 0) {
			snprintf(c->peer, sizeof c->peer, "uid:%u", (unsigned)who.uid);
			c->role = role_of_user(g, who.uid);
		}
	}
}

static bool
is_tcp(const struct call *c)
{
	return strncmp(c->peer, "uid:", 4) != 0;
}

/* How often a header is there; *last_out: its last value. */
static int
count_header(struct evkeyvalq *headers, const char *name, const char **last_out)
{
	struct evkeyval *kv;
	int n = 0;

	TAILQ_FOREACH (kv, headers, next) {
		if (strcasecmp(kv->key, name) == 0) {
			*last_out = kv->value;
			n++;
		}
	}
	return n;
}

/* libevent takes a blank before the colon for a part of the name. */
static bool
are_names(const struct evkeyvalq *headers)
{
	const struct evkeyval *kv;

	TAILQ_FOREACH (kv, headers, next) {
		if (kv->key[strcspn(kv->key, " \t")] != '\0')
			return false;
	}
	return true;
}

bool
guard_framing(struct call *c, struct evkeyvalq *headers)
{
	const char *coding = NULL, *length = NULL, *host = NULL;
	int codings = count_header(headers, "Transfer-Encoding", &coding);
	int lengths = count_header(headers, "Content-Length", &length);
	bool body = codings > 0 || (length != NULL && length[strspn(length, "0")] != '\0');
	/* libevent does not read a body behind HEAD, and would take it for the next request. */
	bool unread = body && evhttp_request_get_command(c->req) == EVHTTP_REQ_HEAD;

	if (codings + lengths <= 1 && !unread && (coding == NULL || strcasecmp(coding, "chunked") == 0) &&
	    (length == NULL || length[strspn(length, "0123456789")] == '\0') &&
	    count_header(headers, "Host", &host) <= 1 && are_names(headers))
		return true;
	c->last = true;
	return call_problem(c, 400, "it is not clear where this request ends, or whom it is for",
	    "Send one Host, and one Content-Length or Transfer-Encoding: chunked, which HEAD has not.");
}

bool
guard_host(const struct serve_settings *set, const char *host)
{
	char name[256];
	unsigned char ignored[16];
	const char *end, *end_of_name;

	if (host == NULL || *host == '\0' || strlen(host) >= sizeof name)
		return false;
	if (*host == '[') {
		end = strchr(++host, ']');
		if (end == NULL)
			return false;
	} else {
		end = host + strcspn(host, ":");
	}
	end_of_name = end;
	end += *end == ']';
	if (*end == ':')
		end += 1 + strspn(end + 1, "0123456789");
	if (*end != '\0')
		return false;
	snprintf(name, sizeof name, "%.*s", (int)(end_of_name - host), host);
	return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, ignored) == 1 ||
	       inet_pton(AF_INET6, name, ignored) == 1 ||
	       (strchr(name, ',') == NULL && serve_in_list(set->hosts, name));
}

bool
guard_cookie(const char *header, const char *name, char *out, size_t size)
{
	size_t n = strlen(name), len;

	for (const char *at = header; at != NULL && *at != '\0';) {
		at += strspn(at, "; ");
		len = strcspn(at, ";");
		if (len > n && strncmp(at, name, n) == 0 && at[n] == '=' && len - n - 1 < size) {
			snprintf(out, size, "%.*s", (int)(len - n - 1), at + n + 1);
			return true;
		}
		at += len;
	}
	return false;
}

static bool
changes_something(const struct call *c)
{
	return strcmp(c->route->method, "GET") != 0;
}

/* A browser says where a request comes from; a page of another site must not be able
 * to change anything here. */
static bool
is_of_other_site(const struct call *c)
{
	const char *origin = call_header(c, "Origin"), *host = call_header(c, "Host");
	const char *site = call_header(c, "Sec-Fetch-Site"), *name;

	if (site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0)
		return true;
	if (origin == NULL)
		return false;
	name = strstr(origin, "://");
	return name == NULL || host == NULL || strcasecmp(name + 3, host) != 0;
}

static bool
has_csrf(struct call *c)
{
	const char *given = call_form(c, "csrf");

	return !c->new_cookie && given != NULL && strcmp(given, c->csrf) == 0;
}

static void
take_token(struct call *c)
{
	const char *given = call_header(c, "Authorization");
	char cookie[200];

	if (given != NULL && strncasecmp(given, "Bearer ", 7) == 0)
		c->token = xstrdup(given + 7);
	else if (guard_cookie(call_header(c, "Cookie"), "pgrab_token", cookie, sizeof cookie))
		c->token = xstrdup(cookie);
}

static bool
ask_for_token(struct call *c)
{
	char hint[120];

	snprintf(hint, sizeof hint,
	    "Send it as Authorization: Bearer TOKEN; select %s.token_add(...) makes one.", schema_name());
	return call_problem(c, 401, "this needs a token", hint);
}

/* An http task comes from a node, wherever its owner is, so the address says nothing of what it may do. */
static bool
is_of_task(const struct call *c)
{
	return call_header(c, "Pgrab-Fence") != NULL;
}

static bool
admit_who(struct guard *g, struct call *c)
{
	if (c->route->who == ROUTE_ANYBODY)
		return true;
	if (g->set->auth == SERVE_TOKEN)
		take_token(c);
	if (c->token != NULL)
		return true;
	if (is_of_task(c))
		return call_problem(c, 403,
		    "a task of pgrab sends this, and without a token nobody knows for whom",
		    "With auth = token a task can send one: args.headers, Authorization.");
	if (g->set->auth == SERVE_TOKEN && is_tcp(c)) {
		if (call_is_page(c)) {
			c->status = 303;
			c->location = xstrdup("/login");
			return false;
		}
		return ask_for_token(c);
	}
	if (c->role == ROLE_NONE)
		return call_problem(c, 403, "this user of the operating system has no role here",
		    "Name it under [role NAME] in the file of pgrab serve: peers = USER.");
	return true;
}

bool
guard_admit(struct guard *g, struct call *c)
{
	c->new_cookie = !guard_cookie(call_header(c, "Cookie"), "pgrab_csrf", c->csrf, sizeof c->csrf) ||
			strlen(c->csrf) != 32 || strspn(c->csrf, "0123456789abcdef") != 32;
	if (c->new_cookie)
		guard_random(c->csrf);
	if (changes_something(c) && is_of_other_site(c))
		return call_problem(c, 403, "this request was made by a page of another site", NULL);
	if (changes_something(c) && call_is_page(c) && !has_csrf(c))
		return call_problem(c, 403, "this form is not from here, or too old",
		    "Go back, load the page again, and send the form again. Cookies are needed for it.");
	if (!admit_who(g, c))
		return false;
	if ((c->route->how == ROUTE_AS_SELF || c->route->how == ROUTE_PROBE) && c->token == NULL)
		c->role = CALL_OWN_ROLE;
	return true;
}
