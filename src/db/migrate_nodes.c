/* What migrations do to nodes that are up; see schema_migrate. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

/* The server itself ends the transaction of a migrator that stands still: nodes wait for its locks. */
static enum rc
let_go_after(struct db *db, int64_t ms, struct err *err)
{
	char text[160];

	snprintf(text, sizeof text,
	    "set local idle_in_transaction_session_timeout = %" PRId64
	    "; set local statement_timeout = %" PRId64,
	    ms, ms);
	return db_script(db, text, err);
}

enum rc
migrate_hold_up(struct db *db, int64_t *until_us_out, struct err *err)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = db_query(db, sql_text("migrate_nodes"), 0, NULL, &r, err);

	*until_us_out = CLOCK_NEVER;
	if (rc != RC_OK || db_int64(r, 0, 0) == 0)
		return rc;
	*until_us_out = clock_mono_us() + db_int64(r, 0, 1);
	return let_go_after(db, db_int64(r, 0, 1) / US_PER_MS, err);
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

enum rc
migrate_answer(enum rc rc, int64_t until_us, struct err *err)
{
	bool timed_out = rc == RC_AGAIN && strcmp(err->sqlstate, "57014") == 0;

	return timed_out && until_us != CLOCK_NEVER ? migrate_in_time(0, err) : rc;
}
