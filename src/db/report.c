/* The same SELECT, in four shapes. */
#include "db/report.h"

#include "db/sql.h"

void
report_sql(struct buf *sql, enum report_shape shape, const char *name)
{
	/* json, not jsonb: it keeps the order of columns.  JSON writes times in another form.  The text may
	 * end with a comment. */
	static const char *const around[][2] = {[REPORT_ROWS] = {"", ""},
	    [REPORT_ARRAY] = {"select coalesce(json_agg(q), '[]') from (\n", "\n) q"},
	    [REPORT_OBJECTS] = {"select row_to_json(q) from (\n", "\n) q"},
	    [REPORT_FIELDS] = {
		"select f.key, case when f.value ~ '^\\d{4}-\\d\\d-\\d\\dT[0-9:.]{8,15}[-+]\\d\\d:\\d\\d$'"
		" then date_trunc('second', f.value::timestamptz)::text else f.value end from (select * from "
		"(\n",
		"\n) q limit 1) q, json_each_text(row_to_json(q)) with ordinality f(key, value, n)"
		" where f.value is not null order by f.n"}};

	buf_addf(sql, "%s%s%s", around[shape][0], sql_text(name), around[shape][1]);
}

enum rc
report_ask(struct db *db, enum report_shape shape, const char *name, int n_params, const char *const *params,
    PGresult **out, struct err *err)
{
	AUTO_BUF struct buf sql = {0};

	report_sql(&sql, shape, name);
	return db_query(db, buf_str(&sql), n_params, params, out, err);
}
