/* See route.h. */
#include "serve/route.h"

#include <stdlib.h>
#include <string.h>

#include <event2/buffer.h>

#include "base/alloc.h"

static const struct route *const tables[] = {serve_routes, api_routes, page_routes};

static void
drop_parts(struct call *c)
{
	for (int i = 0; i < CALL_PATH_PARTS; i++) {
		free(c->part[i]);
		c->part[i] = NULL;
	}
}

/* One decoded part, without NUL bytes; NULL: it has one. */
static char *
decode(const char *text, size_t n)
{
	char *copy = xmemdup0(text, n), *plain;
	size_t len = 0;

	plain = evhttp_uridecode(copy, 0, &len);
	free(copy);
	if (plain != NULL && strlen(plain) != len) {
		free(plain);
		plain = NULL;
	}
	return plain;
}

static bool
matches(struct call *c, const char *pattern, const char *path)
{
	int n = 0;

	for (;;) {
		size_t len = strcspn(path, "/");

		if (*pattern == '*') {
			if (len == 0 || n == CALL_PATH_PARTS || (c->part[n] = decode(path, len)) == NULL)
				return false;
			n++;
			pattern++;
		} else {
			len = 0;
			while (*pattern != '\0' && *pattern != '*' && *pattern == *path)
				pattern++, path++;
		}
		path += len;
		if (*pattern == '\0' || (*pattern != '*' && *pattern != *path))
			return *pattern == '\0' && *path == '\0';
	}
}

static bool
fits(const char *have, const char *method)
{
	return strcmp(have, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(have, "GET") == 0);
}

/* All rows of one path are together. */
static const char *
allowed(const struct route *r)
{
	static const struct {
		const char *first, *second, *third, *all;
	} sets[] = {{"GET", NULL, NULL, "GET, HEAD"}, {"POST", NULL, NULL, "POST"},
	    {"GET", "POST", NULL, "GET, HEAD, POST"}, {"GET", "PATCH", "DELETE", "GET, HEAD, PATCH, DELETE"},
	    {"PUT", "DELETE", NULL, "PUT, DELETE"}};
	const char *have[3] = {r->method, NULL, NULL};

	for (int i = 1; i < 3 && r[i].path != NULL && strcmp(r[i].path, r->path) == 0; i++)
		have[i] = r[i].method;
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		const char *const want[3] = {sets[i].first, sets[i].second, sets[i].third};
		bool same = true;

		for (int k = 0; k < 3; k++)
			same = same && (have[k] == NULL) == (want[k] == NULL) &&
			       (have[k] == NULL || strcmp(have[k], want[k]) == 0);
		if (same)
			return sets[i].all;
	}
	return r->method;
}

const struct route *
route_find(struct call *c, const char *method, const char *path, const char **allow_out)
{
	*allow_out = NULL;
	for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
		for (const struct route *r = tables[t]; r->path != NULL; r++) {
			if (*allow_out != NULL && !fits(r->method, method))
				continue;
			drop_parts(c);
			if (!matches(c, r->path, path))
				continue;
			if (fits(r->method, method))
				return r;
			*allow_out = allowed(r);
		}
	}
	drop_parts(c);
	return NULL;
}
