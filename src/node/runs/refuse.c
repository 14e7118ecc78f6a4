#include "node/runs/refuse.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/outbuf.h"
#include "core/secret.h"
#include "exec/secret_file.h"
#include "node/owners/owners.h"
#include "node/runs/outcome.h"

/* Reads what its args name in files.  RC_BAD: err says what is missing. */
static enum rc
read_files(const struct node *n, struct run *r, struct err *err)
{
	enum rc rc = RC_OK;

	for (size_t i = 0; rc == RC_OK && i < r->task.args.count; i++) {
		const char *path;
		char *value = NULL;

		if (secret_reference(r, i, &path) != SECRET_FILE)
			continue;
		rc = secret_file_read(n->set->secret_dir, r->task.owner, path, &value, err);
		if (rc == RC_OK) {
			secret_fill(r, i, value);
			explicit_bzero(value, strlen(value));
		}
		free(value);
	}
	return rc;
}

/* True: it has its outcome. */
static bool
is_refused(const struct node *n, struct run *r, bool known)
{
	enum outcome outcome = OUTCOME_FAILED;
	struct err err = {0};
	enum rc rc = RC_OK;

	if (!known ||
	    !owners_allow(n->set, r->task.owner, r->task.kind)) { /* it was edited between claim and start */
		outcome = OUTCOME_NOT_STARTED;
		rc = err_set(
		    &err, RC_BAD, "this node does not run kind %s for owner %s", r->task.kind, r->task.owner);
	} else if (r->task.refused != NULL) {
		outcome = r->task.unready ? OUTCOME_NOT_STARTED : OUTCOME_FAILED;
		rc = err_set(&err, RC_BAD, "%s", r->task.refused);
	} else {
		rc = read_files(n, r, &err);
	}
	if (rc == RC_OK)
		return false;
	r->end.outcome = outcome;
	r->end.at_us = clock_mono_us();
	r->end.error = text_printable(err.text, strlen(err.text), sizeof err.text);
	return true;
}

/* It counts before it asks whether the node may act: who takes that away, and then sees nothing run, knows
 * that nothing will. */
bool
run_begins(struct node *n, struct run *r, bool known)
{
	r->begun_us = clock_mono_us();
	atomic_store(&r->sign_us, r->begun_us);
	atomic_fetch_add(&n->running[r->crew], r->need.slots);
	if (!node_may_act(n, r->incarnation, clock_boot_us())) {
		r->end.written = WRITTEN_NEVER; /* others may have it by now: nothing is executed */
	} else if (!is_refused(n, r, known)) {
		node_count(n, COUNT_STARTED, 1);
		return true;
	} else {
		outcome_log(r);
		achieved_note(n, r);
	}
	atomic_fetch_sub(&n->running[r->crew], r->need.slots);
	return false;
}
