/* The same SELECT, in four shapes. */
#include "db/report.h"

#include "base/buf.h"
#include "db/sql.h"

/* json, not jsonb: it keeps the order of the columns. */
static enum rc
wrapped(struct db *db, const char *before, const char *name, const char *after, int n_params,
    const char *const *params, PGresult **out, struct err *err)
{
	AUTO_BUF struct buf sql = {0};

	/* The text may end with a comment. */
	buf_addf(&sql, "%s (\n%s\n) q%s", before, sql_text(name), after);
	return db_query(db, buf_str(&sql), n_params, params, out, err);
}

enum rc
report_rows(
    struct db *db, const char *name, int n_params, const char *const *params, PGresult **out, struct err *err)
{
	return db_query(db, sql_text(name), n_params, params, out, err);
}

enum rc
report_array(
    struct db *db, const char *name, int n_params, const char *const *params, PGresult **out, struct err *err)
{
	return wrapped(db, "select coalesce(json_agg(q), '[]') from", name, "", n_params, params, out, err);
}

enum rc
report_objects(
    struct db *db, const char *name, int n_params, const char *const *params, PGresult **out, struct err *err)
{
	return wrapped(db, "select row_to_json(q) from", name, "", n_params, params, out, err);
}

enum rc
report_fields(
    struct db *db, const char *name, int n_params, const char *const *params, PGresult **out, struct err *err)
{
	/* JSON writes times in another form. */
	return wrapped(db,
	    "select f.key, case when f.value ~ '^\\d{4}-\\d\\d-\\d\\dT[0-9:.]{8,15}[-+]\\d\\d:\\d\\d$'"
	    " then date_trunc('second', f.value::timestamptz)::text else f.value end from (select * from",
	    name,
	    " limit 1) q, json_each_text(row_to_json(q)) with ordinality f(key, value, n)"
	    " where f.value is not null order by f.n",
	    n_params, params, out, err);
}
