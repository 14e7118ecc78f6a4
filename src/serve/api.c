#include "serve/api.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <event2/keyvalq_struct.h>

#include "base/alloc.h"
#include "db/report.h"
#include "serve/cache.h"

#define TASKS_MAX 1000

/* The parameters of one statement, and the memory that they need. */
struct given {
	const char *value[API_PARAMS];
	int n;
	char text[API_PARAMS][MOMENT_MAX];
	struct pgarray one;
	int64_t limit; /* the last API_COUNT */
};

static bool
refuse(struct call *c, const char *name, const char *what)
{
	AUTO_BUF struct buf text = {0};

	buf_addf(&text, "%s: %s", name, what);
	call_problem(c, 400, buf_str(&text), "See /api/v1/openapi.json.");
	return false;
}

static bool
take_count(struct call *c, const struct api_param *p, struct given *g)
{
	const char *text = call_query(c, p->name);
	char *end;
	long long n = strtoll(text == NULL ? p->fallback : text, &end, 10);
	char what[80];

	if (*end != '\0' || n < 1 || n > p->number) {
		snprintf(what, sizeof what, "it is a whole number from 1 to %d", p->number);
		return refuse(c, p->name, what);
	}
	g->limit = n;
	snprintf(g->text[g->n], sizeof g->text[0], "%lld", n);
	g->value[g->n] = g->text[g->n];
	return true;
}

/* A number needs no lookup. */
static bool
take_id(struct call *c, struct db *db, struct given *g)
{
	const char *params[] = {c->part[0]};
	AUTO_CLEAR PGresult *r = NULL;

	g->value[g->n] = c->part[0];
	if (c->part[0][strspn(c->part[0], "0123456789")] == '\0')
		return true;
	if (!call_ask(c, db, "cli_id", 1, params, &r))
		return false;
	snprintf(g->text[g->n], sizeof g->text[0], "%s", db_text(r, 0, 0));
	g->value[g->n] = g->text[g->n];
	return true;
}

static bool
add_task(struct given *g, const cJSON *task)
{
	char number[24];

	if (cJSON_IsString(task)) {
		pgarray_text(&g->one, task->valuestring);
	} else if (cJSON_IsNumber(task) && task->valuedouble > 0 && task->valuedouble < 9e15 &&
		   task->valuedouble == floor(task->valuedouble)) {
		snprintf(number, sizeof number, "%.0f", task->valuedouble);
		pgarray_text(&g->one, number);
	} else {
		return false;
	}
	return true;
}

static bool
take_tasks(struct call *c, struct given *g)
{
	cJSON *body = c->body == NULL ? NULL : cJSON_Parse(c->body);
	const cJSON *tasks = cJSON_GetObjectItemCaseSensitive(body, "tasks"), *task;
	int n = 0;
	bool ok = cJSON_IsArray(tasks);

	cJSON_ArrayForEach(task, tasks) ok = ok && ++n <= TASKS_MAX && add_task(g, task);
	g->value[g->n] = pgarray_str(&g->one);
	cJSON_Delete(body);
	return (ok && n > 0) ||
	       refuse(c, "body", "it must be {\"tasks\": [...]}, with up to 1000 ids, keys or names");
}

static bool
take(struct call *c, struct db *db, const struct api_param *p, struct given *g)
{
	const char *text;

	switch (p->from) {
	case API_PART: g->value[g->n] = c->part[p->number]; break;
	case API_ONE:
		pgarray_text(&g->one, c->part[0]);
		g->value[g->n] = pgarray_str(&g->one);
		break;
	case API_COUNT: return take_count(c, p, g);
	case API_WORD: g->value[g->n] = call_query(c, p->name); return call_is_word(c, p->name, p->words);
	case API_TIME: g->value[g->n] = call_moment(c, p->name, g->text[g->n]); break;
	case API_ID: return take_id(c, db, g);
	case API_TASKS: return take_tasks(c, g);
	case API_BODY:
		if (c->body == NULL)
			return refuse(c, "body", "a JSON object is needed");
		g->value[g->n] = c->body;
		break;
	case API_PAYLOAD: g->value[g->n] = c->body; break;
	case API_TRACE: g->value[g->n] = c->traceparent; break;
	case API_QUERY:
		text = call_query(c, p->name);
		if (text == NULL && p->needed)
			return refuse(c, p->name, "this parameter is needed");
		g->value[g->n] = text == NULL ? p->fallback : text;
		break;
	case API_NONE: break;
	}
	return true;
}

/* An unknown name is a mistake, and must not be ignored. */
static bool
knows(const struct api *a, const char *name)
{
	for (const struct api_param *p = a->param; p->from != API_NONE; p++) {
		if (p->name != NULL && strcmp(p->name, name) == 0)
			return true;
	}
	return false;
}

static bool
check_names(struct call *c, const struct api *a)
{
	struct evkeyval *kv;

	TAILQ_FOREACH (kv, &c->query, next) {
		if (!knows(a, kv->key))
			return refuse(c, kv->key, "there is no such parameter here");
	}
	return true;
}

static enum report_shape
shape_of(const struct api *a)
{
	return a->shape == API_ARRAY ? REPORT_ARRAY : a->shape == API_OBJECT ? REPORT_OBJECTS : REPORT_ROWS;
}

/* One row more than asked for says that there is a next page; one without JSON, that there may be. */
static void
put_page(struct call *c, const PGresult *r, int64_t limit)
{
	bool cut = call_search_cut(c, r);
	int n = cut ? PQntuples(r) - 1 : PQntuples(r) > limit ? (int)limit : PQntuples(r);

	buf_addc(&c->out, '[');
	for (int row = 0; row < n; row++)
		buf_addf(&c->out, "%s%s", row > 0 ? ",\n " : "", db_text(r, row, 0));
	buf_addc(&c->out, ']');
	if (cut || PQntuples(r) > limit) {
		AUTO_FREE char *next = call_next(c, db_text(r, cut ? n : n - 1, 1));

		c->link = xasprintf("<%s>; rel=\"next\"", next);
	}
}

static void
put_location(struct call *c, const char *before, const char *object)
{
	const char *id = strstr(object, "\"id\":");

	if (before != NULL && id != NULL)
		c->location = xasprintf("%s%lld", before, strtoll(id + 5, NULL, 10));
}

static void
put_rows(struct call *c, const struct api *a, const PGresult *r, int64_t limit)
{
	if ((a->shape == API_OBJECT || a->shape == API_JSON) && PQntuples(r) == 0) {
		call_problem(c, 404, "there is no such thing", NULL);
		return;
	}
	c->type = "application/json";
	c->status = a->status == 0 ? 200 : a->status;
	if (a->shape == API_PAGE)
		put_page(c, r, limit);
	else
		buf_adds(&c->out, db_text(r, 0, 0));
	buf_addc(&c->out, '\n');
	put_location(c, a->location, buf_str(&c->out));
}

static enum rc
ask(struct call *c, const struct api *a, struct db *db, const char *sql, struct given *g, PGresult **r,
    struct err *err)
{
	enum rc rc = a->hash_joins ? db_script(db, "set enable_hashjoin = on", err) : RC_OK;

	if (rc == RC_OK && a->shared && c->cache != NULL)
		rc = cache_query(c->cache, db, c->role, sql, g->n, g->value, r, err);
	else if (rc == RC_OK)
		rc = db_query(db, sql, g->n, g->value, r, err);
	if (a->hash_joins && db_conn(db) != NULL && db_script(db, "set enable_hashjoin = off", NULL) != RC_OK)
		db_disconnect(db);
	return rc;
}

void
api_answer(struct call *c, struct db *db)
{
	const struct api *a = c->route->arg;
	struct given g = {.n = 0};
	AUTO_BUF struct buf sql = {0};
	AUTO_CLEAR PGresult *r = NULL;
	struct err err = {0};
	bool ok = check_names(c, a);
	enum rc rc;

	for (const struct api_param *p = a->param; ok && p->from != API_NONE; p++, g.n++)
		ok = take(c, db, p, &g);
	if (ok && a->shape == API_PAGE)
		snprintf(g.text[g.n - 1], sizeof g.text[0], "%lld", (long long)g.limit + 1);
	if (ok) {
		report_sql(&sql, shape_of(a), a->sql);
		rc = ask(c, a, db, buf_str(&sql), &g, &r, &err);
		if (rc == RC_OK)
			put_rows(c, a, r, g.limit);
		else
			call_failed(c, rc, &err);
	}
	pgarray_fini(&g.one);
}
