#include "serve/page.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/version.h"
#include "serve/escape.h"
#include "serve/settings.h"

static const struct {
	const char *path, *label;
} nav[] = {{"/", "Overview"}, {"/tasks", "Tasks"}, {"/history", "History"}, {"/timeline", "Timeline"},
    {"/month", "Month"}, {"/chains", "Chains"}, {"/nodes", "Nodes"}, {"/limits", "Limits"},
    {"/blackouts", "Blackouts"}, {"/new", "Add a task"}};

static bool
is_here(const struct call *c, const char *path)
{
	size_t n = strlen(path);

	return strncmp(c->uri, path, n) == 0 &&
	       (c->uri[n] == '\0' || c->uri[n] == '?' || (n > 1 && c->uri[n] == '/'));
}

/* The same page of another database.  In single quotes: not to be made a path of this one, see prefix.c. */
static void
put_databases(struct call *c)
{
	const char *page = strncmp(c->uri, "/databases", 10) == 0 ? "/" : c->uri;
	AUTO_BUF struct buf path = {0};
	AUTO_FREE char *first = NULL;

	if (c->set->n_databases == 0)
		return;
	first = xmemdup0(page, strcspn(page + 1, "/?") + 1);
	html_text(&path, first); /* it is what a client sent */
	buf_addf(&c->out, "<nav aria-label=\"Databases\"><a href='/databases'%s>All databases</a>\n",
	    strncmp(c->uri, "/databases", 10) == 0 ? " aria-current=\"page\"" : "");
	for (size_t i = 0; i <= c->set->n_databases; i++) {
		const char *name = serve_database_name(c->set, i);

		buf_addf(&c->out, "<a href='%s%s%s'%s>", i == 0 ? "" : "/db/", i == 0 ? "" : name,
		    buf_str(&path), i == c->database ? " aria-current=\"true\"" : "");
		html_addf(&c->out, "%s</a>\n", name);
	}
	buf_adds(&c->out, "</nav>");
}

void
page_hidden(struct call *c, const char *name, const char *value)
{
	html_addf(&c->out, "<input type=\"hidden\" name=\"%s\" value=\"%s\">", name, value);
}

void
page_come_back(struct call *c)
{
	page_hidden(c, "back", c->uri);
}

void
page_keep_zone(struct call *c)
{
	if (call_query(c, "timezone") != NULL)
		page_hidden(c, "timezone", call_zone(c));
}

/* The same page in another zone. */
static void
put_zone(struct call *c)
{
	struct evkeyval *kv;

	html_addf(&c->out,
	    "<form class=\"find zone\" aria-label=\"Time zone\"><label>Times in <input name=\"timezone\" "
	    "value=\"%s\"></label>",
	    call_zone(c));
	if (strcmp(c->method, "GET") == 0) {
		TAILQ_FOREACH (kv, &c->query, next) {
			if (strcmp(kv->key, "timezone") != 0)
				page_hidden(c, kv->key, kv->value);
		}
	}
	buf_adds(&c->out, "<button>Set</button></form>");
}

void
page_begin(struct call *c, const char *title, bool live)
{
	const char *database = serve_database_name(c->set, c->database);
	struct buf *o = &c->out;

	c->type = "text/html; charset=utf-8";
	html_addf(o,
	    "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
	    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
	    "<title>%s - %s</title>\n<link rel=\"icon\" href=\"data:,\">\n"
	    "<link rel=\"stylesheet\" href=\"/static/page.css\">\n"
	    "<script src=\"/static/page.js\" defer></script>\n</head>\n<body>\n"
	    "<a class=\"skip\" href=\"#main\">Skip to the content</a>\n<header><strong>%s</strong>\n"
	    "<nav aria-label=\"Pages\">",
	    title, database, database);
	for (size_t i = 0; i < sizeof nav / sizeof *nav; i++)
		buf_addf(o, "<a href=\"%s\"%s>%s</a>\n", nav[i].path,
		    is_here(c, nav[i].path) ? " aria-current=\"page\"" : "", nav[i].label);
	buf_adds(o, "</nav>\n<form class=\"find\" role=\"search\" aria-label=\"All tasks\" action=\"/find\">"
		    "<input type=\"search\" name=\"q\" aria-label=\"Task\" placeholder=\"name, key or id\">");
	page_keep_zone(c);
	buf_adds(o, "<button>Find</button></form>");
	put_zone(c);
	put_databases(c);
	buf_addf(o, "</header>\n<main id=\"main\"%s>\n<h1>", live ? " data-live=\"5\"" : "");
	html_addf(o, "%s</h1>\n", title);
}

void
page_end(struct call *c)
{
	html_addf(&c->out, "</main>\n<footer>pgrab %s", version_text());
	if (c->token != NULL) {
		page_form(c, "/logout", "inline");
		page_button(c, "out", "1", "Log out");
		buf_adds(&c->out, "</form>");
	}
	buf_adds(&c->out, "</footer>\n</body>\n</html>\n");
}

void
page_problem(struct call *c, const char *title, const char *detail, const char *hint)
{
	page_begin(c, title, false);
	html_addf(&c->out, "<p role=\"alert\" class=\"problem\">%s</p>\n", detail);
	if (hint != NULL)
		html_addf(&c->out, "<p>%s</p>\n", hint);
	if (c->status == 401)
		buf_adds(&c->out, "<p><a href=\"/login\">Log in</a></p>\n");
	html_addf(&c->out, "<p class=\"dim\">Request %s</p>\n", c->id);
	page_end(c);
}

void
page_form(struct call *c, const char *path, const char *class)
{
	html_addf(&c->out, "<form method=\"post\" action=\"%s\" class=\"%s\">", path, class);
	page_hidden(c, "csrf", c->csrf);
}

void
page_button(struct call *c, const char *name, const char *value, const char *label)
{
	html_addf(&c->out, "<button name=\"%s\" value=\"%s\">%s</button>\n", name, value, label);
}

void
page_heading(struct call *c, const char *text)
{
	buf_addf(&c->out, "<h2>%s</h2>\n", text);
}

/* The browser says where a form stood, so only a path of ours counts.  Browsers drop tabs and line ends from
 * a URL, so /<tab>/evil is //evil. */
static bool
is_our_path(const char *path)
{
	if (path[0] != '/' || path[1] == '/' || path[1] == '\\')
		return false;
	for (; *path != '\0'; path++) {
		if (*path <= ' ' || *path >= 0x7f)
			return false;
	}
	return true;
}

void
page_back(struct call *c, const char *to)
{
	const char *from = call_form(c, "back");

	if (from != NULL && is_our_path(from))
		to = from;
	buf_reset(&c->out);
	c->status = 303;
	free(c->location);
	c->location = xstrdup(to);
}
