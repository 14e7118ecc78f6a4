/* What migrations do to nodes that are up; see schema_migrate. */
#include <inttypes.h>

#include "base/clock.h"
#include "db/migrate.h"
#include "db/schema.h"

enum rc
migrate_at_rest(struct db *db, struct err *err)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = db_query(db, sql_text("migrate_nodes"), 0, NULL, &r, err);

	if (rc == RC_OK && db_int64(r, 0, 0) > 0)
		rc = err_set(err, RC_BAD,
		    "nodes of an earlier version cannot work with it, and %" PRId64
		    " are up: stop them (pgrab nodes%s lists them), then run migrate again",
		    db_int64(r, 0, 0), schema_flag());
	return rc;
}

enum rc
migrate_hold_up(struct db *db, int64_t *until_us_out, struct err *err)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = db_query(db, sql_text("migrate_nodes"), 0, NULL, &r, err);

	*until_us_out = CLOCK_NEVER;
	if (rc == RC_OK && db_int64(r, 0, 0) > 0)
		*until_us_out = clock_mono_us() + db_int64(r, 0, 1);
	return rc;
}

enum rc
migrate_in_time(int64_t until_us, struct err *err)
{
	if (clock_mono_us() < until_us)
		return RC_OK;
	return err_set(err, RC_BAD,
	    "nodes that are up wait for it, and would stop their runs if it took any longer; it was undone: "
	    "try again when the server has less to do, or stop the nodes first");
}
