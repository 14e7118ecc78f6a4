/* What the starter cannot hand back, for lack of a connection, goes with the beats: a node keeps
 * beating as long as it holds anything. */
#include <inttypes.h>

#include "base/log.h"
#include "db/fault.h"
#include "node/batch.h"
#include "node/context.h"
#include "node/heartbeat/private.h"

#define BACK_MAX 256 /* handed back with one beat */

static void
append(struct run **chain, struct run *more)
{
	if (*chain == NULL) {
		*chain = more;
		return;
	}
	struct run *last = *chain;

	while (run_next(last) != NULL)
		last = run_next(last);
	last->note.mail.next = more == NULL ? NULL : &more->note.mail;
}

static enum rc
release(struct heartbeat *h, struct run **batch, size_t n, struct err *err)
{
	const struct holder who = {
	    .incarnation = batch[0]->incarnation, .contended = batch_is_locked(batch, n)};
	int64_t released = 0;
	enum rc rc = h->store->release(h->db, &who, batch, n, &released, err);

	log_debug("handed_back", "tasks=%zu back=%" PRId64 " answer=%s", n, released, rc_name(rc));
	return rc;
}

/* batch[0..n).  Returns those that are to be tried again. */
static struct run *
give_back(struct heartbeat *h, struct run **batch, size_t n)
{
	struct err err = {0};
	struct run *later = NULL;
	enum rc rc = release(h, batch, n, &err);

	if (n > 1 && fault_is_of_row(rc, &err)) { /* of one of them */
		for (size_t i = 0; i < n; i++)
			append(&later, give_back(h, batch + i, 1));
		return later;
	}
	for (size_t i = 0; i < n; i++) {
		bool again = batch[i]->incarnation == atomic_load(&h->node->incarnation) &&
			     (rc == RC_OK ? batch[i]->place.locked : rc != RC_BAD);

		if (again) {
			later = run_chain(batch[i], later);
			continue;
		}
		if (rc != RC_OK)
			hold_keep(batch[i]->hold); /* it may still be recorded as claimed */
		run_free(batch[i]);
	}
	return later;
}

void
heartbeat_hand_back(struct heartbeat *h)
{
	struct run *batch[BACK_MAX];
	struct mail *m = NULL;
	size_t n;

	while (mailbox_pop_until(h->node->back_queue, 0, &m) == RC_OK)
		h->back = run_chain(run_of(m), h->back);
	if ((n = batch_take(&h->back, batch, BACK_MAX)) == 0)
		return;
	/* After the others: what is locked must not keep them waiting. */
	append(&h->back, give_back(h, batch, n));
}
