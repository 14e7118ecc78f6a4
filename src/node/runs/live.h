/*
 * What runs show while they are under way: their output so far, their progress, and that they are
 * being stopped.
 *
 * Each run that can be stopped has an entry, from its beginning to its end: its worker makes it, fills it
 * and takes it away; the teller reads it, when there is something to tell.  While nobody looks and nothing
 * is reported this costs no statement.  Lock order: the list's lock, then an entry's.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "base/outbuf.h"
#include "core/progress.h"
#include "core/run.h"
#include "db/store_live.h"
#include "node/runs/saved.h"

struct teller;
struct lives;

/* In the worker's hands; the teller looks at it under `lock`. */
struct live {
	TAILQ_ENTRY(live) next;
	struct lives *all; /* NULL: nobody can look */
	struct run *run;   /* the worker's */
	pthread_mutex_t lock;
	struct outbuf *out; /* of what was printed, as it will be shown; NULL: nothing */
	struct text_stream stream;
	struct progress_reader reader;
	struct progress progress;
	int64_t progress_us; /* clock_mono_us; 0: none was reported */
	char waits_for[PROGRESS_TEXT + 1];
	bool changed; /* since the teller last looked */
	/* the teller's */
	bool told;         /* there is something in the database about it */
	int64_t shown;     /* bytes of output when it was last shown; -1: never */
	bool stop_is_told; /* that it is being stopped */
	struct buf piece;  /* the worker's, for its output */
	struct saved saved;
};

struct lives {
	pthread_mutex_t lock;
	TAILQ_HEAD(, live) under_way;
	struct live_key *ended; /* runs that something was told about */
	size_t n_ended, cap_ended;
	struct teller *teller; /* told of changes; set before the first run */
};

void lives_init(struct lives *l);
void lives_fini(struct lives *l);

/* From the run's worker.  all: NULL when nobody can look.  live_end: what has been printed, the
 * caller's; NULL: nothing.  *bytes_out: how much it was, if a part of it is missing. */
void live_begin(struct live *v, struct lives *all, struct run *r);
char *live_end(struct live *v, bool *truncated_out, int64_t *bytes_out);
void live_print(struct live *v, const void *bytes, size_t n);
void live_progress(struct live *v, double percent, const char *text);
void live_waits_for(struct live *v, const char *text);

/* From the teller.  What has changed since the last time, or everything (again: what was told may not have
 * got through); a run that was told to stop counts as changed after `patience_us`.  *next_us_out: when the
 * next of those does, or CLOCK_NEVER.  Arrays are the caller's. */
struct live_changes {
	struct live_note *notes;
	struct live_key *ended;
	size_t n_notes, n_ended;
	int64_t next_us;
};
void lives_changes(struct lives *l, bool again, int64_t patience_us, struct live_changes *out);

/* The output of one run, unless that is as it was when last shown. */
void lives_output(struct lives *l, const struct live_key *key, struct live_output *out);

/* What was to be written has not been: it is offered again. */
void lives_not_shown(struct lives *l, const struct live_key *key);
void lives_not_taken_back(struct lives *l, const struct live_key *ended, size_t n);
