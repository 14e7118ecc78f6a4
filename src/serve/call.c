#include "serve/call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <event2/keyvalq_struct.h>

#include "base/alloc.h"
#include "base/option.h"
#include "base/texts.h"
#include "db/fault.h"
#include "db/sql.h"
#include "serve/cache.h"
#include "serve/escape.h"
#include "serve/page.h"
#include "serve/settings.h"

void
call_free(struct call *c)
{
	for (int i = 0; i < CALL_PATH_PARTS; i++)
		free(c->part[i]);
	evhttp_clear_headers(&c->query);
	evhttp_clear_headers(&c->form);
	free(c->method);
	free(c->uri);
	free(c->body);
	free(c->token);
	free(c->location);
	free(c->link);
	free(c->searched);
	free(c->nodes);
	free(c->cookie);
	buf_fini(&c->out);
	free(c);
}

static const char *
find(const struct evkeyvalq *list, const char *name)
{
	const char *value = evhttp_find_header(list, name);

	return value == NULL || *value == '\0' ? NULL : value;
}

const char *
call_query(const struct call *c, const char *name)
{
	return find(&c->query, name);
}

const char *
call_zone(const struct call *c)
{
	const char *asked = call_query(c, "timezone");

	if (!call_is_page(c))
		return "UTC";
	return asked == NULL ? c->set->timezone : asked;
}

/* "3:00", "03:00:30" */
static bool
is_clock(const char *text)
{
	size_t hour = strspn(text, "0123456789");

	return hour > 0 && hour < 3 && text[hour] == ':' && strlen(text) < 9 &&
	       text[strspn(text, "0123456789:")] == '\0';
}

const char *
call_moment(const struct call *c, const char *name, char text[MOMENT_MAX])
{
	const char *given = call_query(c, name);
	int64_t us;

	if (given != NULL && is_clock(given)) {
		snprintf(text, MOMENT_MAX, "today %s", given);
		return text;
	}
	if (given == NULL || !duration_parse(given, &us))
		return given;
	snprintf(text, MOMENT_MAX, "%lld us", (long long)us);
	return text;
}

const char *
call_form(const struct call *c, const char *name)
{
	return find(&c->form, name);
}

bool
call_is_page(const struct call *c)
{
	return c->set->callback_listen == NULL && strncmp(c->uri, "/api/", 5) != 0 &&
	       strncmp(c->uri, "/metrics", 8) != 0 && strncmp(c->uri, "/livez", 6) != 0 &&
	       strncmp(c->uri, "/readyz", 7) != 0;
}

static const char *
title_of(int status)
{
	switch (status) {
	case 400: return "Bad request";
	case 401: return "Who are you?";
	case 403: return "Not allowed";
	case 404: return "No such thing";
	case 405: return "Not with this method";
	case 409: return "Conflict";
	case 410: return "Over";
	case 413: return "Too large";
	case 415: return "Not in this form";
	case 421: return "Not for this host";
	case 429: return "Too many requests";
	case 503: return "Not now";
	default: return "Error";
	}
}

bool
call_problem(struct call *c, int status, const char *detail, const char *hint)
{
	buf_reset(&c->out);
	c->status = status;
	if (call_is_page(c)) {
		page_problem(c, title_of(status), detail, hint);
		return false;
	}
	c->type = "application/problem+json";
	buf_adds(&c->out, "{\"type\":\"about:blank\",\"title\":");
	buf_json(&c->out, title_of(status));
	buf_addf(&c->out, ",\"status\":%d,\"detail\":", status);
	buf_json(&c->out, detail);
	if (hint != NULL) {
		buf_adds(&c->out, ",\"hint\":");
		buf_json(&c->out, hint);
	}
	buf_adds(&c->out, ",\"request_id\":");
	buf_json(&c->out, c->id);
	buf_adds(&c->out, "}\n");
	return false;
}

bool
call_is_word(struct call *c, const char *name, const char *const *words)
{
	const char *given = call_query(c, name);
	AUTO_BUF struct buf text = {0};

	if (given == NULL || text_among(given, words))
		return true;
	buf_addf(&text, "%s: there is no \"%s\"; it is one of:", name, given);
	for (const char *const *w = words; *w != NULL; w++)
		buf_addf(&text, "%s %s", w == words ? "" : ",", *w);
	return call_problem(c, 400, buf_str(&text), NULL);
}

/* Classes 22, 23 and 54 are about what was sent; P0002, 21000 and 55000 come from our own functions. */
static int
status_of(enum rc rc, const struct err *err)
{
	const char *state = err->sqlstate;
	static const struct {
		const char *state;
		int status;
	} known[] = {
	    {"P0002", 404}, {"42501", 403}, {"23505", 409}, {"55000", 409}, {"55006", 409}, {"21000", 409}};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		if (strcmp(known[i].state, state) == 0)
			return known[i].status;
	}
	if (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0 || strncmp(state, "0A", 2) == 0 ||
	    strncmp(state, "54", 2) == 0)
		return 400;
	if (rc == RC_AGAIN || rc == RC_RACE || rc == RC_UNKNOWN || *state == '\0' || fault_no_schema(err))
		return 503;
	return 500;
}

void
call_failed(struct call *c, enum rc rc, const struct err *err)
{
	char detail[sizeof err->text];
	const char *hint = err->hint_at > 0 ? err->text + err->hint_at : NULL,
		   *advice = fault_advice(rc, err);

	snprintf(detail, sizeof detail, "%s", err->text);
	if (hint != NULL && err->hint_at >= 2)
		detail[err->hint_at - 2] = '\0'; /* ". " */
	if (hint == NULL && (strcmp(err->sqlstate, "22007") == 0 || strcmp(err->sqlstate, "22008") == 0))
		hint =
		    "A time is 03:00, Monday 03:00, yesterday 03:00, 2026-11-22 03:00, or how long ago: 2h.";
	call_problem(c, status_of(rc, err), detail, advice != NULL ? advice : hint);
}

static bool
answered(struct call *c, enum rc rc, const struct err *err)
{
	if (rc != RC_OK)
		call_failed(c, rc, err);
	return rc == RC_OK;
}

bool
call_ask(struct call *c, struct db *db, const char *sql, int n, const char *const *params, PGresult **out)
{
	struct err err = {0};

	return answered(c, db_query(db, sql_text(sql), n, params, out, &err), &err);
}

bool
call_ask_shared(
    struct call *c, struct db *db, const char *sql, int n, const char *const *params, PGresult **out)
{
	struct err err = {0};

	return answered(c, cache_query(c->cache, db, c->role, sql_text(sql), n, params, out, &err), &err);
}

char *
call_next(const struct call *c, const char *cursor)
{
	struct evkeyval *kv;
	struct buf uri = {0};

	buf_addf(&uri, "%.*s?", (int)strcspn(c->uri, "?"), c->uri);
	TAILQ_FOREACH (kv, &c->query, next) {
		if (strcmp(kv->key, "cursor") == 0)
			continue;
		html_url(&uri, kv->key);
		buf_addc(&uri, '=');
		html_url(&uri, kv->value);
		buf_addc(&uri, '&');
	}
	buf_adds(&uri, "cursor=");
	html_url(&uri, cursor);
	return buf_steal(&uri);
}

bool
call_search_cut(struct call *c, const PGresult *r)
{
	int last = PQntuples(r) - 1, column = PQfnumber(r, "searched");

	if (last < 0 || column < 0 || PQgetisnull(r, last, column))
		return false;
	free(c->searched);
	c->searched = xstrdup(db_text(r, last, column));
	return true;
}
