/* Values of pgrab.secret; see store_task.h. */
#include <string.h>

#include "base/alloc.h"
#include "core/secret.h"
#include "db/schema.h"
#include "db/sql.h"
#include "db/store_task.h"

/* How many of these args name a row of the table. */
static size_t
ask(struct run **runs, size_t n, struct pgarray ask[3])
{
	const char *name;
	size_t asked = 0;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; runs[i]->started && k < runs[i]->task.args.count; k++) {
			if (secret_reference(runs[i], k, &name) != SECRET_TABLE)
				continue;
			pgarray_int(&ask[0], runs[i]->id);
			pgarray_int(&ask[1], runs[i]->version);
			pgarray_text(&ask[2], name);
			asked++;
		}
	}
	return asked;
}

static const char *
find(const PGresult *res, int64_t id, const char *name)
{
	for (int row = 0; row < PQntuples(res); row++) {
		if (db_int64(res, row, 0) == id && strcmp(db_text(res, row, 1), name) == 0)
			return db_text(res, row, 2);
	}
	return NULL;
}

static void
fill(struct run *r, const PGresult *res)
{
	const char *name, *value;

	for (size_t k = 0; r->started && k < r->task.args.count; k++) {
		if (secret_reference(r, k, &name) != SECRET_TABLE)
			continue;
		value = find(res, r->id, name);
		if (value != NULL)
			secret_fill(r, k, value);
		else if (r->task.refused == NULL)
			r->task.refused =
			    xasprintf("there is no secret \"%.200s\" of %.63s; its owner makes it: insert "
				      "into %s.secret (name, value) values (...)",
				name, r->task.owner, schema_name());
	}
}

enum rc
store_secrets(struct db *db, struct run **runs, size_t n, struct err *err)
{
	struct pgarray a[3] = {0};
	AUTO_CLEAR PGresult *res = NULL;
	enum rc rc = RC_OK;

	if (ask(runs, n, a) > 0) {
		const char *params[] = {pgarray_str(&a[0]), pgarray_str(&a[1]), pgarray_str(&a[2])};

		rc = db_query(db, sql_text("secrets"), 3, params, &res, err);
	}
	for (size_t i = 0; rc == RC_OK && res != NULL && i < n; i++)
		fill(runs[i], res);
	for (size_t i = 0; i < 3; i++)
		pgarray_fini(&a[i]);
	return rc;
}
