/* The starter: what is handed back, and whether the database takes starts; see starter.c. */
#include "base/clock.h"
#include "base/log.h"
#include "db/fault.h"
#include "node/batch.h"
#include "node/context.h"
#include "node/starter/private.h"

#define ILL_TRIES 2

bool
starter_again(struct starter *s, const char *what, enum rc rc, int64_t until_us, const struct err *err)
{
	bool go_on = batch_pause(&s->backoff, &s->node->stop_now, rc, what, err);

	if ((rc == RC_AGAIN || rc == RC_UNKNOWN) && s->backoff.tries >= ILL_TRIES)
		health_ill(s->node, HEALTH_START, true, err);
	return go_on && clock_mono_us() < until_us;
}

void
starter_well(struct starter *s)
{
	backoff_reset(&s->backoff);
	health_well(s->node, HEALTH_START);
}

/* What cannot be handed back here goes with the heartbeat. */
static void
hand_over(struct starter *s, struct run *const *runs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct run *copy = run_copy(runs[i]);

		mailbox_push(s->node->back_queue, &copy->note.mail);
		runs[i]->place.locked = false; /* it is for the heartbeat to try again */
	}
}

void
starter_release(struct starter *s, int64_t incarnation, struct run **runs, size_t n)
{
	const struct holder who = {.incarnation = incarnation,
	    .contended = clock_mono_us() < s->contended_until_us || batch_is_locked(runs, n)};
	int64_t released, until_us = clock_mono_us() + PATIENCE_US;
	struct err err = {0};

	while (n > 0 && node_may_act(s->node, incarnation, clock_boot_us())) {
		enum rc rc = s->store->release(s->db, &who, runs, n, &released, &err);

		if (rc == RC_OK) {
			log_debug("released", "tasks=%zu back=%lld", n, (long long)released);
			starter_well(s);
			return;
		}
		if (n > 1 && fault_is_of_row(rc, &err)) { /* of one of them */
			for (size_t i = 0; i < n; i++)
				starter_release(s, incarnation, runs + i, 1);
			return;
		}
		if (!starter_again(s, "release", rc, until_us, &err) || !health_may_claim(s->node)) {
			hand_over(s, runs, n);
			return;
		}
	}
}

void
starter_probe(struct starter *s)
{
	const struct holder nobody = {0};
	struct err err = {0};
	int64_t released;

	if (health_part_well(s->node, HEALTH_START) || clock_mono_us() < s->next_probe_us)
		return;
	if (s->store->release(s->db, &nobody, NULL, 0, &released, &err) == RC_OK)
		starter_well(s);
	else
		s->next_probe_us = clock_mono_us() + backoff_next_us(&s->backoff);
}

void
starter_keep_locked(struct starter *s, struct run *const *runs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct run *copy;

		if (!runs[i]->place.locked)
			continue;
		log_debug("locked", "task=%lld", (long long)runs[i]->id);
		copy = run_copy(runs[i]);
		copy->place.locked = true;
		s->locked = run_chain(copy, s->locked);
		s->contended_until_us = clock_mono_us() + CONTENDED_US;
	}
}

void
starter_retry_locked(struct starter *s)
{
	struct run *chain = s->locked;
	size_t n;

	if (chain == NULL || clock_mono_us() < s->next_locked_us)
		return;
	s->locked = NULL;
	while ((n = batch_take(&chain, s->batch, START_MAX)) > 0) {
		int64_t incarnation = s->batch[0]->incarnation;

		starter_release(s, incarnation, s->batch, n);
		for (size_t i = 0; i < n; i++) {
			if (s->batch[i]->place.locked && node_may_act(s->node, incarnation, clock_boot_us()))
				s->locked = run_chain(s->batch[i], s->locked);
			else
				run_free(s->batch[i]);
		}
	}
	s->next_locked_us = clock_mono_us() + LOCKED_US;
}
