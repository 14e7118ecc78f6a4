/*
 * Writing outcomes: what is the fault of one row, and what of the server.
 *
 * A batch that is refused proves nothing yet: a trigger of somebody's that refuses everything looks
 * the same as one bad row.  So some of the batch are tried each for itself.  When one of these
 * passes, the way is free, and whatever is refused then is the row's own fault: it is stored
 * without its text, or parked with the reason.  When none passes, everything is kept and waits.
 * Owned by the finisher's thread.
 */
#ifndef PGRAB_NODE_FINISH_WRITE_H
#define PGRAB_NODE_FINISH_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "db/store.h"

struct finish_writer {
	const struct store *store;
	struct db *db; /* borrowed */
	int64_t retention_us;
	struct recorder who;
	unsigned tries;        /* of the caller, in vain, since something passed */
	bool passing;          /* out: the server took some, so what it did not take is no fault of its */
	unsigned no_partition; /* in a row */
	int64_t lone_id, lone_since_us; /* the only one in hand, refused since then */
};

/*
 * f[0..n): all OUTCOME_NOT_STARTED or none of them, sorted by (id, version).  alone: nothing else
 * waits to be written.
 * RC_OK: what is neither applied, locked nor refused is stale.  Else the caller keeps what is not,
 * and asks again later; after
 * RC_UNKNOWN it asks store_recorded first.
 */
CHECKED enum rc
finish_write(struct finish_writer *w, struct finish **f, size_t n, bool alone, struct err *err);

#endif
