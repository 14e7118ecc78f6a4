#include "serve/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/escape.h"
#include "serve/settings.h"

/* 0: none has that name. */
static size_t
find(const struct serve_settings *set, const char *name, size_t n)
{
	for (size_t i = 0; i < set->n_databases; i++) {
		if (strlen(set->databases[i].name) == n && strncmp(set->databases[i].name, name, n) == 0)
			return i + 1;
	}
	return 0;
}

bool
prefix_take(struct call *c)
{
	const char *name = c->uri + strlen("/db/");
	size_t n;
	char *rest;

	if (c->set->n_databases == 0 || strncmp(c->uri, "/db/", strlen("/db/")) != 0)
		return true;
	n = strcspn(name, "/?");
	c->database = find(c->set, name, n);
	if (c->database == 0)
		return call_problem(c, 404, "there is no such database here", "/databases lists them.");
	snprintf(c->base, sizeof c->base, "/db/%s", serve_database_name(c->set, c->database));
	rest = name[n] == '/' ? xstrdup(name + n) : xasprintf("/%s", name + n);
	free(c->uri);
	c->uri = rest;
	return true;
}

static bool
ends_with(const char *begin, const char *end, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(end - begin) >= n && memcmp(end - n, word, n) == 0;
}

/* An attribute whose value is one of our paths, as every page writes it.  The thread that serves everybody
 * looks at each byte once. */
static const char *
next_path(const char *page, const char *at)
{
	while ((at = strstr(at, "=\"/")) != NULL) {
		if (ends_with(page, at, " href") || ends_with(page, at, " action"))
			return at + 2;
		at += 2;
	}
	return NULL;
}

/* A path of ours, up to its end (a quote, or that of the text), as it is for this visitor: of that database,
 * and in the time zone that was asked for. */
static const char *
put_path(struct call *c, struct buf *out, const char *path, const char *and)
{
	const char *zone = call_query(c, "timezone");
	size_t n = strcspn(path, "\""), part = strcspn(path, "\"#");
	AUTO_FREE char *copy = xmemdup0(path, part);

	if (strncmp(path, "/static/", 8) == 0)
		zone = NULL;
	else
		buf_adds(out, c->base);
	buf_adds(out, copy);
	if (zone != NULL && strstr(copy, "timezone=") == NULL) {
		buf_addf(out, "%stimezone=", strchr(copy, '?') == NULL ? "?" : and);
		html_url(out, zone);
	}
	buf_add(out, path + part, n - part);
	return path + n;
}

/* What a user wrote has &quot; for its quotes, so it is no attribute. */
static void
rewrite_page(struct call *c)
{
	struct buf out = {0};
	const char *page = buf_str(&c->out), *at = page, *path;

	while ((path = next_path(page, at)) != NULL) {
		buf_add(&out, at, (size_t)(path - at));
		at = put_path(c, &out, path, "&amp;");
	}
	buf_adds(&out, at);
	buf_fini(&c->out);
	c->out = out;
}

static void
rewrite(struct call *c, char **path, size_t at)
{
	struct buf out = {0};

	if (*path == NULL || (*path)[at] != '/')
		return;
	buf_add(&out, *path, at);
	if (at == 0 && call_is_page(c))
		(void)put_path(c, &out, *path, "&");
	else
		buf_addf(&out, "%s%s", c->base, *path + at);
	free(*path);
	*path = buf_steal(&out);
}

void
prefix_put(struct call *c)
{
	if (c->database == 0 && (call_query(c, "timezone") == NULL || !call_is_page(c)))
		return;
	if (c->type != NULL && strncmp(c->type, "text/html", 9) == 0 && c->out.len > 0)
		rewrite_page(c);
	rewrite(c, &c->location, 0);
	rewrite(c, &c->link, 1); /* "<" */
}
