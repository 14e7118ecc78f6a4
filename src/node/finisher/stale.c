#include "node/finisher/stale.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/context.h"

#define STALE_US US_PER_S /* between lines of the log */

void
stale_add(struct stale *s, struct node *n, const struct run *r)
{
	node_count(n, COUNT_STALE, 1);
	s->count++;
	s->id = r->id;
	log_debug("stale", "task=%" PRId64 " version=%" PRId64 " outcome=%s", r->id, r->version,
	    outcome_name(r->end.outcome));
}

void
stale_say(struct stale *s)
{
	int64_t now = clock_mono_us();

	if (s->count == 0 || now < s->next_us)
		return;
	log_warn("stale_finish", "count=%" PRIu64 " task=%" PRId64 " hint=\"%s\"", s->count, s->id,
	    "another node has the task now, or it was changed or deleted; these results changed nothing");
	s->count = 0;
	s->next_us = now + STALE_US;
}
