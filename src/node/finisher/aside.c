/*
 * Outcomes about which the server is silent.
 *
 * A statement that has no answer in time may be one row's fault: a trigger of the user's that waits, a chain
 * with very many links.  The finisher gives its batch away and goes on with what has ended since, so nobody
 * else waits.  The one aside, on a connection of its own, tries halves of it, then each of the last ones
 * alone with more and more time; and one that is never answered is parked, with the reason.  When the
 * finisher has no answer for one batch after another the fault is the server's, and everything is kept
 * (batch.c).
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "node/finisher/private.h"

#define ANSWER_US  (2 * US_PER_S)    /* for a batch, which takes milliseconds */
#define CAREFUL_US (400 * US_PER_MS) /* while there is something aside: more of its kind may come */
#define LONE_US    (10 * US_PER_S)   /* for one alone; each time twice as long */
#define MUTES_MAX  4                 /* 10 + 20 + 40 + 80 seconds */

int64_t
finisher_patience(const struct finisher *s, size_t n)
{
	if (s->aside != NULL)
		return atomic_load(&s->aside->n_held) > 0 ? CAREFUL_US : ANSWER_US;
	return n == 1 ? LONE_US << s->batch[0]->end.mutes : ANSWER_US;
}

void
finisher_put_aside(struct finisher *s)
{
	if (s->aside == NULL || s->mute.first == NULL)
		return;
	log_warn("silence", "outcomes=%zu hint=\"%s\"", s->mute.count,
	    "the server did not answer in time: they are tried again in halves, beside the others");
	atomic_fetch_add(&s->aside->n_held, s->mute.count);
	mailbox_push_chain(s->aside->queue, &waiting_take(&s->mute)->note.mail);
}

/* No more than one has had its time, and is tried for the last time. */
static void
note_mute(struct finisher *s, struct run *r, struct err *err)
{
	s->mute.next_us = clock_mono_us() + US_PER_S;
	if (r->end.mutes + 1 < MUTES_MAX) {
		r->end.mutes++;
		return;
	}
	s->writer.who.within_us = LONE_US;
	if (finish_park(&s->writer, &s->finish[0], err) != RC_OK)
		log_warn("silence", "task=%" PRId64 " error=\"%s\"", r->id, err->text);
}

/* Writes some of the chain, and returns the rest of it. */
static struct run *
write_some(struct finisher *s, struct run *chain)
{
	const struct offer offer = {.aside = true};
	struct err err = {0};
	size_t n = finisher_take(s, &chain, s->most);
	enum rc rc = finisher_batch(s, n, offer, &err);

	if (err_is_silence(rc, &err) && n == 1)
		note_mute(s, s->batch[0], &err);
	else if (err_is_silence(rc, &err))
		s->most = n / 2;
	finisher_settle(s, n, offer, rc, &err);
	return chain;
}

void
finisher_sift(struct finisher *s, struct run *chain)
{
	waiting_add(&s->kept, chain);
	if (s->kept.first != NULL) {
		chain = write_some(s, waiting_take(&s->kept));
		waiting_add(&s->kept, chain);
	} else if (s->mute.first != NULL && clock_mono_us() >= s->mute.next_us) {
		s->most = 1;
		chain = write_some(s, waiting_take(&s->mute));
		waiting_add(&s->mute, chain);
	}
	if (s->kept.first == NULL)
		s->most = FINISH_MAX;
}

int64_t
finisher_sift_next(const struct finisher *s)
{
	return s->kept.first != NULL ? 0 : s->mute.first != NULL ? s->mute.next_us : CLOCK_NEVER;
}
