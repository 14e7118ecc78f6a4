#include "serve/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/settings.h"

static const struct route *const tables[] = {serve_routes, api_routes, page_routes, NULL};
static const struct route *const door[] = {callback_routes, NULL};

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
allowed(struct call *c, const struct route *r)
{
	const char *path = r->path;
	AUTO_BUF struct buf methods = {0};

	for (; r->path != NULL && strcmp(r->path, path) == 0; r++)
		buf_addf(&methods, "%s%s%s", methods.len > 0 ? ", " : "", r->method,
		    strcmp(r->method, "GET") == 0 ? ", HEAD" : "");
	snprintf(c->methods, sizeof c->methods, "%s", buf_str(&methods));
	return c->methods;
}

const struct route *
route_find(struct call *c, const char *method, const char *path, const char **allow_out)
{
	const struct route *const *table = c->set->callback_listen != NULL ? door : tables;

	*allow_out = NULL;
	for (; *table != NULL; table++) {
		for (const struct route *r = *table; r->path != NULL; r++) {
			if (*allow_out != NULL && !fits(r->method, method))
				continue;
			drop_parts(c);
			if (!matches(c, r->path, path))
				continue;
			if (fits(r->method, method))
				return r;
			*allow_out = allowed(c, r);
		}
	}
	drop_parts(c);
	return NULL;
}
