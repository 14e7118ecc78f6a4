/* Builds the INSERT: the values are parameters, the names are ours. */
#include "db/store_add.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"

/* A row of its own, because row_to_json keeps the order of columns. */
static const char returning[] =
    "returning id, (select row_to_json(n) from (select id, name, key, kind, status, run_at) n)";

enum rc
store_add(struct db *db, const struct new_value *v, size_t n, PGresult **out, struct err *err)
{
	struct buf names = {0}, places = {0}, sql = {0};
	const char *params[NEW_VALUES_MAX];
	enum rc rc;

	assert(n > 0 && n <= NEW_VALUES_MAX);
	for (size_t i = 0; i < n; i++) {
		bool in = strcmp(v[i].column, NEW_IN_US) == 0;

		buf_addf(&names, "%s%s", i == 0 ? "" : ", ", in ? "run_at" : v[i].column);
		buf_addf(&places, in ? "%snow() + $%zu::bigint * interval '1 us'" : "%s$%zu",
		    i == 0 ? "" : ", ", i + 1);
		params[i] = v[i].text;
	}
	buf_addf(
	    &sql, "insert into pgrab.task (%s) values (%s) %s", buf_str(&names), buf_str(&places), returning);
	rc = db_query(db, buf_str(&sql), (int)n, params, out, err);
	buf_fini(&names);
	buf_fini(&places);
	buf_fini(&sql);
	return rc;
}
