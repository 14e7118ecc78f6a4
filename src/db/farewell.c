/* See farewell.h.  Two statements, the node's row first: only what no living node holds is put back. */
#include "db/farewell.h"

#include "db/store_node.h"

enum rc
store_farewell(struct db *db, int64_t node_id, int64_t incarnation, const char *by, struct recovered *out,
    struct err *err)
{
	enum rc rc = store_node_leave(db, node_id, incarnation, "its process has died", err);

	if (rc == RC_OK)
		rc = store_recover(db, by, incarnation, out, err);
	return rc;
}
