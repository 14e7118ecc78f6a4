/*
 * Writes outcomes, and tells the fault of one row from that of the server.
 *
 * A batch that is refused proves nothing yet: a trigger that refuses everything looks the same as one bad
 * row.  So some rows of the batch are tried one by one.  When one of these passes, whatever is refused after
 * that is at fault itself: it is stored without its text, or parked with the reason.  When none passes,
 * everything is kept and waits.  Owned by the finisher's thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "db/store.h"

struct finish_writer {
	const struct store *store;
	struct db *db; /* borrowed */
	struct recorder who;
	unsigned tries;        /* of the caller since something passed, all in vain */
	bool passing;          /* out: the server took some, so what it did not take is no fault of its */
	unsigned no_partition; /* in a row */
	int64_t lone_id, lone_since_us; /* the only one in hand, refused since then */
};

/* f[0..n) is sorted by (id, version).  alone: nothing else waits to be written.  RC_OK: what is neither
 * applied, locked nor refused is stale.  Otherwise the caller keeps the rest and tries again later; after
 * RC_UNKNOWN it asks store_recorded first. */
CHECKED enum rc
finish_write(struct finish_writer *w, struct finish **f, size_t n, bool alone, struct err *err);

/* For what gets no answer although others do: parks it, with err as the reason, if the server takes that. */
CHECKED enum rc finish_park(struct finish_writer *w, struct finish *f, struct err *err);
