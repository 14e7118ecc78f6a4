/* What runs show while they are under way: pgrab.live and the tables beside it.  enum rc: as db_query. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"
#include "core/progress.h"
#include "core/step.h"
#include "db/pg.h"

struct live_key {
	int64_t incarnation, id, version;
};

/* Times are microseconds before now; negative: none. */
struct live_note {
	struct live_key key;
	struct progress progress;
	int64_t progress_ago_us, stopping_ago_us;
	char waits_for[PROGRESS_TEXT + 1];
};

/* What a run has printed. */
struct live_output {
	struct live_key key;
	char *text;    /* owned by the struct; NULL: no answer */
	int64_t total; /* bytes of text since the beginning */
	size_t unbroken;
};

/* Writes the notes, and deletes what was written about runs that have ended: notes, outputs and requests. */
CHECKED enum rc store_live_tell(struct db *db, const struct live_note *notes, size_t n_notes,
    const struct live_key *ended, size_t n_ended, struct err *err);

/* Takes the requests for outputs that this node must answer, at most `max` of them. */
CHECKED enum rc store_live_asked(
    struct db *db, int64_t incarnation, struct live_key *out, size_t max, size_t *n_out, struct err *err);

/* Records steps of runs in progress, or looks for them: fills in the state of each, and the result that is
 * recorded.  After RC_UNKNOWN it may be called again with the same. */
CHECKED enum rc store_steps(struct db *db, struct step *const *s, size_t n, struct err *err);

/* Those without a text are skipped. */
CHECKED enum rc store_live_answer(struct db *db, const struct live_output *o, size_t n, struct err *err);
