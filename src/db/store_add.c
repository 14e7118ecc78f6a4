/* Builds the INSERT: the values are parameters, the names are ours. */
#include "db/store_add.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"
#include "db/schema.h"

/* A row of its own, because row_to_json keeps the order of columns. */
#define ANSWER "id, (select row_to_json(n) from (select id, name, key, kind, status, run_at) n)"

enum rc
store_add(struct db *db, const struct new_value *v, size_t n, PGresult **out, struct err *err)
{
	AUTO_BUF struct buf names = {0}, places = {0}, sql = {0};
	const char *params[NEW_VALUES_MAX], *comma = "";
	size_t edges = 0; /* which parameter */

	assert(n > 0 && n <= NEW_VALUES_MAX);
	for (size_t i = 0; i < n; i++) {
		bool in = strcmp(v[i].column, NEW_IN_US) == 0;

		params[i] = v[i].text;
		if (strcmp(v[i].column, NEW_EDGES) == 0) {
			edges = i + 1;
			continue;
		}
		buf_addf(&names, "%s%s", comma, in ? "run_at" : v[i].column);
		buf_addf(&places, in ? "%snow() + $%zu::bigint * interval '1 us'" : "%s$%zu", comma, i + 1);
		comma = ", ";
	}
	buf_addf(&sql, "with t as (insert into %s.task (%s) values (%s) returning *)", schema_name(),
	    buf_str(&names), buf_str(&places));
	if (edges > 0)
		buf_addf(&sql,
		    ", e as (insert into %s.edge (parent_id, child_id, run_if) "
		    "select p, t.id, t.run_if from t cross join unnest($%zu::bigint[]) p)",
		    schema_name(), edges);
	buf_addf(&sql, " select " ANSWER " from t");
	return db_query(db, buf_str(&sql), (int)n, params, out, err);
}

/* What UPDATE returns is the row before it is planned again, at the end of the statement. */
static enum rc
read_again(struct db *db, const char *id, PGresult **out, struct err *err)
{
	AUTO_BUF struct buf sql = {0};
	enum rc rc;

	buf_addf(&sql, "select " ANSWER " from %s.task where id = $1", schema_name());
	rc = db_query(db, buf_str(&sql), 1, &id, out, err);
	if (rc != RC_OK)
		err_prefix(err, "it has been changed, but cannot be read");
	return rc;
}

enum rc
store_edit(
    struct db *db, const char *id, const struct new_value *v, size_t n, PGresult **out, struct err *err)
{
	AUTO_BUF struct buf sql = {0};
	const char *params[NEW_VALUES_MAX + 1] = {id};
	AUTO_CLEAR PGresult *changed = NULL;
	size_t n_params = 1;
	enum rc rc;

	assert(n > 0 && n <= NEW_VALUES_MAX);
	buf_addf(&sql, "update %s.task set ", schema_name());
	for (size_t i = 0; i < n; i++) {
		bool in = strcmp(v[i].column, NEW_IN_US) == 0;

		assert(strcmp(v[i].column, NEW_EDGES) != 0);
		buf_adds(&sql, i > 0 ? ", " : "");
		if (in)
			buf_addf(&sql, "run_at = now() + $%zu::bigint * interval '1 us'", n_params + 1);
		else if (*v[i].text == '\0')
			buf_addf(&sql, "%s = default", v[i].column);
		else
			buf_addf(&sql, "%s = $%zu", v[i].column, n_params + 1);
		if (*v[i].text != '\0')
			params[n_params++] = v[i].text;
	}
	buf_adds(&sql, " where id = $1 returning id");
	rc = db_query(db, buf_str(&sql), (int)n_params, params, &changed, err);
	if (rc == RC_OK && PQntuples(changed) > 0)
		return read_again(db, id, out, err);
	*out = changed;
	changed = NULL;
	return rc;
}
