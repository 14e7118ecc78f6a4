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

/* After an answer about batch[0..n): what is to be tried again goes before *later. */
static void
settle(struct heartbeat *h, struct run *const *batch, size_t n, enum rc rc, struct run **later)
{
	for (size_t i = 0; i < n; i++) {
		bool again = batch[i]->incarnation == atomic_load(&h->node->incarnation) &&
			     (rc == RC_OK ? batch[i]->place.locked : rc != RC_BAD);

		if (again) {
			*later = run_chain(batch[i], *later);
			continue;
		}
		if (rc != RC_OK)
			hold_keep(batch[i]->hold); /* it may still be recorded as claimed */
		run_free(batch[i]);
	}
}

void
heartbeat_hand_back(struct heartbeat *h)
{
	struct run *batch[BACK_MAX], *later = NULL;
	struct mail *m = NULL;
	struct err err = {0};
	size_t n, each;
	enum rc rc;

	while (mailbox_pop_until(h->node->back_queue, 0, &m) == RC_OK)
		h->back = run_chain(run_of(m), h->back);
	if ((n = batch_take(&h->back, batch, BACK_MAX)) == 0)
		return;
	rc = release(h, batch, n, &err);
	each = n > 1 && fault_is_of_row(rc, &err) ? n : 0; /* one of them is refused */
	for (size_t i = 0; i < each; i++) {
		if (rc == RC_OK || rc == RC_BAD) /* else there is no connection now */
			rc = release(h, batch + i, 1, &err);
		settle(h, batch + i, 1, rc, &later);
	}
	settle(h, batch + each, n - each, rc, &later);
	append(&h->back, later); /* after the others: what is locked must not keep them waiting */
}
