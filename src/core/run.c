#include "core/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/heap.h"
#include "core/secret.h"

const char *const run_outcomes_or_all[RUN_OUTCOMES + 2] = {"all", "succeeded", "failed", "timed_out",
    "cancelled", "lost", "skipped", "missed", "waited", "preempted", NULL};

const char *
outcome_name(enum outcome o)
{
	static const char *const name[OUTCOME__COUNT] = {
	    [OUTCOME_NONE] = "none",
	    [OUTCOME_SUCCEEDED] = "succeeded",
	    [OUTCOME_FAILED] = "failed",
	    [OUTCOME_TIMED_OUT] = "timed_out",
	    [OUTCOME_CANCELLED] = "cancelled",
	    [OUTCOME_LOST] = "lost",
	    [OUTCOME_PREEMPTED] = "preempted",
	    [OUTCOME_WAITED] = "waited",
	    [OUTCOME_NOT_STARTED] = "not_started",
	    [OUTCOME_AWAITS] = "awaits",
	};

	return (unsigned)o < OUTCOME__COUNT ? name[o] : "none";
}

void
run_fire_at(const struct run *r, char out[RUN_FIRE_AT_MAX])
{
	int64_t part = r->task.fire_us % US_PER_S;
	time_t s = (time_t)(r->task.fire_us / US_PER_S);
	struct tm tm;
	char text[32];

	if (part < 0) { /* before 1970 */
		part += US_PER_S;
		s--;
	}
	gmtime_r(&s, &tm);
	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(out, RUN_FIRE_AT_MAX, "%.31s.%06dZ", text, (int)part);
}

void
run_fence(const struct run *r, char out[RUN_FENCE_MAX])
{
	snprintf(out, RUN_FENCE_MAX, "%" PRId64 "-%" PRId64, r->incarnation, r->version);
}

struct run *
run_create(int64_t id, int64_t version, int64_t incarnation)
{
	struct run *r = xcalloc(1, sizeof *r);

	r->id = id;
	r->version = version;
	r->need.slots = 1;
	r->incarnation = incarnation;
	r->stop.fd = -1;
	r->task.spare_us = -1;
	r->note.run = r->begun.run = r->idle.run = r;
	r->begun.what = NOTE_BEGUN;
	r->idle.what = NOTE_IDLE;
	r->place.slot = HEAP_NONE;
	r->place.deadline_slot = HEAP_NONE;
	return r;
}

struct run *
run_copy(const struct run *r)
{
	struct run *copy = run_create(r->id, r->version, r->incarnation);

	copy->hold = r->hold == NULL ? NULL : hold_ref(r->hold);
	return copy;
}

void
run_free(struct run *r)
{
	if (r == NULL)
		return;
	if (r->stop.fd >= 0 && !r->stop.lent)
		close(r->stop.fd);
	hold_unref(r->hold);
	secret_fini(r);
	pairs_fini(&r->task.args);
	free(r->task.args_text);
	free(r->task.refused);
	free(r->task.name);
	free(r->task.kind);
	free(r->task.command);
	free(r->task.owner);
	free(r->task.proof);
	free(r->task.traceparent);
	free(r->task.key);
	free(r->end.error);
	free(r->end.output);
	free(r);
}

void
run_leave_all(struct run *chain)
{
	while (chain != NULL) {
		struct run *r = chain;

		chain = run_next(r);
		hold_keep(r->hold);
		run_free(r);
	}
}
