#include "serve/prefix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
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

/* What a user wrote has &quot; for its quotes, so it is no attribute. */
static void
rewrite_page(struct call *c)
{
	struct buf out = {0};
	const char *page = buf_str(&c->out), *at = page, *path;

	for (; (path = next_path(page, at)) != NULL; at = path) {
		buf_add(&out, at, (size_t)(path - at));
		if (strncmp(path, "/static/", 8) != 0)
			buf_adds(&out, c->base);
		buf_addc(&out, *path++);
	}
	buf_adds(&out, at);
	buf_fini(&c->out);
	c->out = out;
}

static void
rewrite(char **path, const char *base, size_t at)
{
	struct buf out = {0};

	if (*path == NULL || (*path)[at] != '/')
		return;
	buf_addf(&out, "%.*s%s%s", (int)at, *path, base, *path + at);
	free(*path);
	*path = buf_steal(&out);
}

void
prefix_put(struct call *c)
{
	if (c->database == 0)
		return;
	if (c->type != NULL && strncmp(c->type, "text/html", 9) == 0 && c->out.len > 0)
		rewrite_page(c);
	rewrite(&c->location, c->base, 0);
	rewrite(&c->link, c->base, 1); /* "<" */
}
