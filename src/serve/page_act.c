/* What the forms of the page do. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/texts.h"
#include "serve/page.h"

static bool
chosen(const struct call *c, const char *action)
{
	const char *given = call_form(c, "action");

	return given != NULL && strcmp(given, action) == 0;
}

/* The text for the action that was chosen; NULL: neither, which is answered. */
static const char *
one_of(struct call *c, const char *a, const char *sql_of_a, const char *b, const char *sql_of_b)
{
	if (chosen(c, a))
		return sql_of_a;
	if (chosen(c, b))
		return sql_of_b;
	call_problem(c, 400, "there is no such action", "Go back and choose.");
	return NULL;
}

/* The text of src/db/sql for an action on tasks, or NULL. */
static const char *
sql_of(const char *action)
{
	static const char *const known[][2] = {{"pause", "cli_pause"}, {"resume", "cli_resume"},
	    {"cancel", "cli_cancel"}, {"retry", "cli_retry"}, {"run-now", "cli_run_now"},
	    {"skip-next", "cli_skip_next"}, {"seal", "cli_seal"}, {"delete", "cli_delete"}};

	for (size_t i = 0; action != NULL && i < sizeof known / sizeof *known; i++) {
		if (strcmp(known[i][0], action) == 0)
			return known[i][1];
	}
	return NULL;
}

void
page_act_tasks(struct call *c, struct db *db)
{
	const char *sql = sql_of(call_form(c, "action")), *params[1];
	AUTO_ARRAY struct pgarray tasks = {0};
	struct evkeyval *kv;
	int n = 0;

	TAILQ_FOREACH (kv, &c->form, next) {
		if (strcmp(kv->key, "task") == 0 && ++n <= 1000)
			pgarray_text(&tasks, kv->value);
	}
	params[0] = pgarray_str(&tasks);
	if (sql == NULL || n == 0)
		call_problem(
		    c, 400, n == 0 ? "no task was chosen" : "there is no such action", "Go back and choose.");
	else if (call_ask(c, db, sql, 1, params, NULL))
		page_back(c, "/tasks");
}

void
page_act_signal(struct call *c, struct db *db)
{
	const char *params[3] = {NULL, call_form(c, "signal"), call_form(c, "payload")};
	AUTO_ARRAY struct pgarray task = {0};

	pgarray_text(&task, c->part[0]);
	params[0] = pgarray_str(&task);
	if (params[1] == NULL)
		call_problem(c, 400, "the signal has no name", NULL);
	else if (call_ask(c, db, "cli_signal", 3, params, NULL))
		page_back(c, "/tasks");
}

void
page_act_answer(struct call *c, struct db *db)
{
	const char *params[3] = {c->part[0], call_form(c, "outcome"), call_form(c, "text")};

	if (call_ask(c, db, "cli_resolve", 3, params, NULL))
		page_back(c, "/tasks");
}

void
page_act_node(struct call *c, struct db *db)
{
	const char *params[] = {c->part[0]}, *sql = one_of(c, "drain", "cli_drain", "undrain", "cli_undrain");

	if (sql != NULL && call_ask(c, db, sql, 1, params, NULL))
		page_back(c, "/nodes");
}

/* args is JSON already, and PostgreSQL complains if not. */
static void
put_member(struct buf *object, const char *name, const char *value)
{
	buf_addc(object, object->len == 0 ? '{' : ',');
	buf_json(object, name);
	buf_addc(object, ':');
	if (strcmp(name, "args") == 0)
		buf_adds(object, value);
	else
		buf_json(object, value);
}

/* A field that was left empty means unlimited, and never broken. */
static bool
set_limit(struct call *c, struct db *db, const char *key)
{
	static const char *const members[] = {"max_running", "per_second", "break_after", "break_for"};
	AUTO_BUF struct buf limit = {0};
	const char *params[2] = {key, NULL};

	for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
		put_member(&limit, members[i], call_form(c, members[i]));
	buf_addc(&limit, '}');
	params[1] = buf_str(&limit);
	return call_ask(c, db, "serve_limit_set", 2, params, NULL);
}

/* sql returns a row when there was one of that name. */
static bool
drop(struct call *c, struct db *db, const char *sql, const char *name, const char *absent)
{
	AUTO_CLEAR PGresult *r = NULL;
	bool ok = call_ask(c, db, sql, 1, &name, &r), there = PQntuples(r) > 0;

	if (ok && !there)
		call_problem(c, 404, absent, NULL);
	return ok && there;
}

void
page_act_limit(struct call *c, struct db *db)
{
	const char *key = call_form(c, "key");

	if (key == NULL)
		call_problem(c, 400, "the limit has no key", NULL);
	else if (chosen(c, "delete") ? drop(c, db, "serve_limit_delete", key, "there is no such limit")
				     : set_limit(c, db, key))
		page_back(c, "/limits");
}

static bool
add_blackout(struct call *c, struct db *db)
{
	const char *action = call_form(c, "do");
	const char *params[] = {call_form(c, "name"), call_form(c, "lasts"), call_form(c, "schedule"),
	    call_form(c, "from"), call_form(c, "timezone"), call_form(c, "task_like"), NULL, NULL,
	    action != NULL ? action : "hold", call_form(c, "note")};

	if (params[1] == NULL)
		call_problem(c, 400, "how long does it last?", "For example 2h, or 1 day 6 hours.");
	else if (params[3] != NULL && (params[2] != NULL || params[4] != NULL))
		call_problem(c, 400, "a beginning excludes a schedule, and the time zone of one",
		    "Write the zone behind the time: 2026-11-28 22:00 Europe/Berlin.");
	else
		return call_ask(c, db, "cli_blackout_add", 10, params, NULL);
	return false;
}

void
page_act_blackout(struct call *c, struct db *db)
{
	const char *name = call_form(c, "name");

	if (chosen(c, "end") && name == NULL)
		call_problem(c, 400, "the blackout has no name", NULL);
	else if (chosen(c, "end") ? drop(c, db, "serve_blackout_delete", name, "there is no such blackout")
				  : add_blackout(c, db))
		page_back(c, "/blackouts");
}

void
page_act_all(struct call *c, struct db *db)
{
	const char *sql = one_of(c, "pause", "cli_pause_all", "resume", "cli_resume_all");

	if (sql != NULL && call_ask(c, db, sql, 0, NULL, NULL))
		page_back(c, "/");
}

/* A field that was left empty gets its default. */
void
page_add(struct call *c, struct db *db)
{
	AUTO_BUF struct buf object = {0};
	struct evkeyval *kv;
	AUTO_CLEAR PGresult *r = NULL;
	const char *params[2] = {NULL, c->traceparent};
	char path[64];

	TAILQ_FOREACH (kv, &c->form, next) {
		if (*kv->value != '\0' && !IS_ONE_OF(kv->key, "csrf", "action"))
			put_member(&object, kv->key, kv->value);
	}
	buf_adds(&object, object.len == 0 ? "{}" : "}");
	params[0] = buf_str(&object);
	if (call_ask(c, db, "serve_add", 2, params, &r)) {
		snprintf(path, sizeof path, "/tasks/%lld", (long long)db_int64(r, 0, 0));
		page_back(c, path);
	}
}

/* The next page finds out whether it is valid. */
void
page_log_in(struct call *c, struct db *db)
{
	const char *token = call_form(c, "token");

	if (token == NULL || token[strspn(token, "abcdefghijklmnopqrstuvwxyz0123456789_")] != '\0') {
		call_problem(c, 400, "this is not a token", NULL);
		return;
	}
	c->cookie = xasprintf(
	    "pgrab_token=%.100s; Path=/; HttpOnly; SameSite=Strict%s", token, c->secure ? "; Secure" : "");
	page_back(c, "/");
}

void
page_log_out(struct call *c, struct db *db)
{
	c->cookie = xstrdup("pgrab_token=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict");
	page_back(c, "/login");
}
