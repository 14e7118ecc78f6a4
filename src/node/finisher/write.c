#include "node/finisher/write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "db/fault.h"

#define PROBES     16             /* rows that are tried one by one before anything is concluded */
#define LONE_US    (5 * US_PER_S) /* a lone row, with no other to compare it to, gets this long */
#define SIFT_TRIES 3 /* the same fault of the server this many times may be one row's after all */

static bool
open_end(const struct finish *f)
{
	return !f->applied && !f->locked && !f->refused;
}

/* A row the server will not take (an output its encoding cannot hold, say): tries again without the text. */
static enum rc
write_without_text(struct finish_writer *w, struct finish *f, struct err *err)
{
	char why[600];
	const char *error = f->error;
	bool good = f->outcome == OUTCOME_SUCCEEDED;

	snprintf(why, sizeof why, "%s(its text could not be stored: %s)", good ? "" : "failed ", err->text);
	for (char *p = why; *p != '\0'; p++)
		*p = (unsigned char)*p < 0x80 ? *p : '?';
	if (f->outcome != OUTCOME_WAITED) /* that error is a name, and plain ASCII */
		f->error = good ? NULL : why;
	f->output = NULL;
	f->output_truncated = true;
	enum rc rc = w->store->finish(w->db, &w->who, &f, 1, err);

	f->error = f->outcome == OUTCOME_WAITED ? error : NULL;
	return rc;
}

/* Not even its outcome can be stored: it is parked, so that it does not run again; or,
 * as a last resort, given up. */
static enum rc
write_parked(struct finish_writer *w, struct finish *f, bool last_resort, struct err *err)
{
	char why[600];
	struct err refused = *err;
	enum rc rc;

	snprintf(why, sizeof why, "it %s, and that could not be recorded: %s", outcome_name(f->outcome),
	    err->text);
	rc = w->store->park(w->db, &w->who, f, why, true, err);
	if (rc == RC_BAD && last_resort) {
		rc = w->store->park(w->db, &w->who, f, why, false, err);
		f->refused = rc == RC_BAD;
		rc = rc == RC_BAD ? RC_OK : rc;
	}
	if (rc == RC_OK)
		log_error("finish_refused", "task=%" PRId64 " version=%" PRId64 " outcome=%s error=\"%s\"",
		    f->id, f->version, outcome_name(f->outcome), refused.text);
	return rc;
}

enum rc
finish_park(struct finish_writer *w, struct finish *f, struct err *err)
{
	return write_parked(w, f, false, err);
}

/* For what is proved to be the row's own fault. */
static enum rc
settle_bad(struct finish_writer *w, struct finish *f, struct err *err)
{
	enum rc rc = write_without_text(w, f, err);

	return rc == RC_BAD ? write_parked(w, f, true, err) : rc;
}

/* Makes the missing partition, unless another node is doing that: either way the batch can be tried again.
 * If it is missing again, this connection may have an old picture of the history (a partition was attached
 * while it looked); a new connection has not. */
static enum rc
make_partitions(struct finish_writer *w, struct err *err)
{
	struct err why = {0};
	enum rc rc;

	if (w->no_partition++ > 0)
		db_disconnect(w->db);
	rc = w->store->days(w->db, &why);
	if (rc != RC_OK)
		*err = why;
	return RC_AGAIN;
}

/* What the sifting of a batch has shown so far. */
struct sift {
	bool passed;    /* some rows were accepted */
	struct err why; /* of the last refusal */
};

/* One or a few of a batch.  RC_BAD: the server refused it, for whatever reason.  (What is stale
 * passes, and proves nothing.) */
static enum rc
try_some(struct finish_writer *w, struct sift *s, struct finish **f, size_t n, struct err *err)
{
	enum rc rc = w->store->finish(w->db, &w->who, f, n, err);

	if (fault_no_partition(rc, err))
		return make_partitions(w, err);
	for (size_t i = 0; rc == RC_OK && i < n; i++)
		s->passed = s->passed || f[i]->applied;
	if (rc == RC_BAD || (rc == RC_AGAIN && err->sqlstate[0] != '\0')) {
		s->why = *err;
		rc = RC_BAD;
	}
	return rc;
}

/* Some of f[0..n), spread over it, other ones with every try. */
static enum rc
probe(struct finish_writer *w, struct sift *s, struct finish **f, size_t n, struct err *err)
{
	size_t step = n <= PROBES ? 1 : n / PROBES;
	enum rc rc = RC_OK;

	for (size_t i = w->tries % step; i < n && (rc == RC_OK || rc == RC_BAD); i += step) {
		if (!open_end(f[i]))
			continue;
		rc = try_some(w, s, &f[i], 1, err);
		if (rc == RC_BAD && strncmp(err->sqlstate, "22", 2) == 0)
			rc =
			    write_without_text(w, f[i], err); /* harms nobody, and passing is its own proof */
	}
	return rc == RC_BAD ? RC_OK : rc;
}

/* It was refused while others passed: by its own fault; or for a reason that is no row's fault, and then it
 * is set aside and waits. */
static enum rc
settle_one(struct finish_writer *w, const struct sift *s, struct finish *f, struct err *err)
{
	if (fault_of(s->why.sqlstate) != FAULT_SERVER)
		return settle_bad(w, f, err);
	f->locked = true;
	return RC_OK;
}

/* Others pass: finds those that are still refused, by halving. */
static enum rc
bisect(struct finish_writer *w, struct sift *s, struct finish **f, size_t n, struct err *err)
{
	bool open = false;
	enum rc rc;

	for (size_t i = 0; i < n; i++)
		open = open || open_end(f[i]);
	if (!open)
		return RC_OK;
	rc = try_some(w, s, f, n, err);
	if (rc != RC_BAD)
		return rc;
	if (n == 1)
		return settle_one(w, s, f[0], err);
	rc = bisect(w, s, f, n / 2, err);
	return rc == RC_OK ? bisect(w, s, f + n / 2, n - n / 2, err) : rc;
}

/* It is the only one, so no other can pass beside it.  If it can be parked, history and all, while its end is
 * refused again and again, that proves its own fault. */
static enum rc
settle_lone(struct finish_writer *w, struct finish *f, struct err *err)
{
	int64_t now = clock_mono_us();
	struct err why = *err;
	enum rc rc;

	if (w->lone_id != f->id) {
		w->lone_id = f->id;
		w->lone_since_us = now;
	}
	if (fault_of(why.sqlstate) != FAULT_ROW || now - w->lone_since_us < LONE_US)
		return RC_AGAIN;
	rc = write_parked(w, f, false, err);
	if (rc == RC_BAD) {
		*err = why;
		return RC_AGAIN;
	}
	return rc;
}

static enum rc
sift(struct finish_writer *w, struct finish **f, size_t n, bool alone, struct err *err)
{
	struct sift s = {.why = *err};
	enum rc rc = probe(w, &s, f, n, err);

	if (rc == RC_OK && s.passed)
		rc = bisect(w, &s, f, n, err);
	w->passing = s.passed;
	if (rc != RC_OK || s.passed)
		return rc;
	*err = s.why;
	return n == 1 && alone ? settle_lone(w, f[0], err) : RC_AGAIN;
}

enum rc
finish_write(struct finish_writer *w, struct finish **f, size_t n, bool alone, struct err *err)
{
	enum rc rc = w->store->finish(w->db, &w->who, f, n, err);
	bool answered = rc == RC_AGAIN && err->sqlstate[0] != '\0';

	w->passing = rc == RC_OK;
	if (fault_no_partition(rc, err))
		return make_partitions(w, err);
	if (rc == RC_BAD || (answered && n > 1 && w->tries >= SIFT_TRIES))
		rc = sift(w, f, n, alone, err);
	if (rc == RC_OK)
		w->no_partition = 0;
	return rc;
}
