/* See hosts.h. */
#include "db/hosts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <libpq-fe.h>

#include "base/alloc.h"

static void
take_options(struct hosts *h, const PQconninfoOption *options)
{
	for (const PQconninfoOption *o = options; o != NULL && o->keyword != NULL; o++) {
		char **to = strcmp(o->keyword, "host") == 0       ? &h->host
			    : strcmp(o->keyword, "hostaddr") == 0 ? &h->hostaddr
			    : strcmp(o->keyword, "port") == 0     ? &h->port
								  : NULL;

		if (o->val == NULL)
			continue;
		h->service = h->service || strcmp(o->keyword, "service") == 0;
		if (strcmp(o->keyword, "target_session_attrs") == 0)
			h->prefer_standby = strcmp(o->val, "prefer-standby") == 0;
		if (to != NULL) {
			free(*to);
			*to = xstrdup(o->val);
		}
	}
}

struct hosts
hosts_read(const char *dsn)
{
	struct hosts h = {.host = xstrdup(""), .hostaddr = xstrdup(""), .port = xstrdup("")};
	PQconninfoOption *defaults = PQconndefaults();
	PQconninfoOption *own = strpbrk(dsn, "=:") != NULL ? PQconninfoParse(dsn, NULL) : NULL;
	const char *list;

	take_options(&h, defaults);
	h.service = false; /* libpq has looked that up */
	take_options(&h, own);
	PQconninfoFree(defaults);
	PQconninfoFree(own);
	list = h.hostaddr[0] != '\0' ? h.hostaddr : h.host;
	for (h.n = 1; !h.service && (list = strchr(list, ',')) != NULL; list++)
		h.n++;
	return h;
}

void
hosts_fini(struct hosts *h)
{
	free(h->host);
	free(h->hostaddr);
	free(h->port);
}

/* The i-th element of a list; the only element of a list of one serves for every i. */
static char *
element(const char *list, size_t i)
{
	const char *end;

	if (strchr(list, ',') == NULL)
		return xstrdup(list);
	for (; i > 0 && list != NULL; i--) {
		list = strchr(list, ',');
		list = list == NULL ? NULL : list + 1;
	}
	if (list == NULL)
		return xstrdup("");
	end = strchr(list, ',');
	return xmemdup0(list, end == NULL ? strlen(list) : (size_t)(end - list));
}

struct hosts
hosts_nth(const struct hosts *h, size_t i)
{
	return (struct hosts){.host = element(h->host, i),
	    .hostaddr = element(h->hostaddr, i),
	    .port = element(h->port, i),
	    .n = 1};
}

struct addrinfo *
hosts_addresses(const struct hosts *at)
{
	const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
	bool name = at->hostaddr[0] == '\0' && at->host[0] != '\0' && strchr("/@", at->host[0]) == NULL;
	struct addrinfo *list = NULL;

	if (!name || at->service || getaddrinfo(at->host, NULL, &hints, &list) != 0)
		return NULL;
	if (list->ai_next == NULL) {
		freeaddrinfo(list);
		return NULL;
	}
	return list;
}
