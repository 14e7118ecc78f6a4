/* The request to cancel what a connection is doing.  See pg_priv.h. */
#include "db/pg_priv.h"

#include "db/deadline_call.h"

static void
send_cancel(void *arg)
{
	char text[256];

	PQcancel(arg, text, sizeof text); /* a failure shows as no answer to the statement */
}

static void
drop_cancel(void *arg)
{
	PQfreeCancel(arg);
}

/* PQcancel connects, and has no deadline.  A request still under way when the time is up could hit a later
 * statement, so the connection is given up. */
enum rc
db_cancel(struct db *db, int64_t until_us, struct err *err)
{
	PGcancel *c = PQgetCancel(db->conn);

	if (c != NULL && !deadline_call(send_cancel, drop_cancel, c, until_us)) {
		db_disconnect(db);
		return err_set(err, RC_UNKNOWN, "the statement could not be cancelled within the deadline");
	}
	PQfreeCancel(c);
	return RC_OK;
}
