/* See farewell.h.  The node's row first: only what no living node holds is put back. */
#include "db/farewell.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "db/store_node.h"

#define PATIENCE_US (2 * US_PER_S) /* for what takes milliseconds */

/* If the server is silent it may be about one task: the node that looks for orphans finds out which.  Until
 * then nothing here must keep them locked, so the statement is ended (by db_connect). */
static enum rc
put_back(struct db *db, int64_t incarnation, const char *by, struct recovered *out, struct err *err)
{
	const struct recovery what = {.by = by, .incarnation = incarnation, .within_us = PATIENCE_US};
	AUTO_FREE struct lost *lost = NULL;
	int64_t kept;
	size_t n;
	enum rc rc = store_lost(db, incarnation, &lost, &n, &kept, err);

	if (rc == RC_OK)
		rc = store_recover(db, &what, out, err);
	return rc == RC_UNKNOWN && err->silent ? db_connect(db, err) : rc;
}

enum rc
store_farewell(struct db *db, int64_t node_id, int64_t incarnation, const char *by, struct recovered *out,
    struct err *err)
{
	enum rc rc = store_node_leave(db, node_id, incarnation, "its process has died", err);

	if (rc == RC_OK)
		rc = put_back(db, incarnation, by, out, err);
	return rc;
}
