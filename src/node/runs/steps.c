#include "node/runs/steps.h"

#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "db/store_live.h"
#include "node/context.h"
#include "node/handlers/handlers.h"
#include "node/runs/saved.h"

#define BATCH       64
#define BATCH_BYTES (1024 * 1024)

static void
empty(struct step_list *l)
{
	l->first = NULL;
	l->end = &l->first;
}

static void
append(struct step_list *l, struct step *s)
{
	s->mail.next = NULL;
	*l->end = s;
	l->end = (struct step **)(void *)&s->mail.next;
}

static struct step *
take_first(struct step_list *l)
{
	struct step *s = l->first;

	l->first = step_next(s);
	if (l->first == NULL)
		empty(l);
	return s;
}

static void
move_all(struct step_list *to, struct step_list *from)
{
	while (from->first != NULL)
		append(to, take_first(from));
}

void
steps_init(struct steps *q)
{
	*q = (struct steps){.inbox = mailbox_create()};
	empty(&q->now);
	empty(&q->locked);
	empty(&q->done);
	backoff_init(&q->backoff, 100 * US_PER_MS, 2 * US_PER_S, (uint64_t)clock_mono_us());
	backoff_init(&q->lock_backoff, 20 * US_PER_MS, US_PER_S, (uint64_t)clock_mono_us());
}

static void
take_inbox(struct steps *q)
{
	struct mail *m = NULL;

	while (mailbox_pop_all_until(q->inbox, 0, &m) == RC_OK) {
		while (m != NULL) {
			struct step *s = step_of(m);

			m = m->next;
			append(&q->now, s);
		}
	}
}

void
steps_fini(struct steps *q)
{
	take_inbox(q);
	move_all(&q->now, &q->locked);
	move_all(&q->now, &q->done);
	while (q->now.first != NULL)
		step_free(take_first(&q->now));
	mailbox_destroy(&q->inbox);
}

/* What is worth asking about; of runs that others may have by now nothing is asked. */
static size_t
take_batch(struct steps *q, const struct node *n, struct step *batch[BATCH])
{
	size_t count = 0, bytes = 0;
	int64_t now = clock_boot_us();

	while (q->now.first != NULL && count < BATCH && bytes < BATCH_BYTES) {
		struct step *s = take_first(&q->now);

		bytes += s->result == NULL ? 0 : strlen(s->result);
		if (node_may_act(n, s->incarnation, now)) {
			batch[count++] = s;
		} else {
			s->state = STEP_LOST;
			append(&q->done, s);
		}
	}
	return count;
}

static void
take_answers(struct steps *q, struct step *const *batch, size_t n)
{
	for (size_t i = 0; i < n; i++)
		append(batch[i]->state == STEP_LOCKED ? &q->locked : &q->done, batch[i]);
}

/* What the server refuses for good is refused of each by itself. */
static enum rc
ask(struct steps *q, struct db *db, struct step *const *batch, size_t n, struct err *err)
{
	enum rc rc = store_steps(db, batch, n, err);

	if (rc == RC_BAD && n == 1) {
		batch[0]->state = STEP_REFUSED;
		batch[0]->why = xasprintf("the server refuses to record it: %s", err->text);
		rc = RC_OK;
	} else if (rc == RC_BAD) {
		rc = RC_OK;
		for (size_t i = 0; i < n; i++) {
			enum rc one = rc == RC_OK ? ask(q, db, &batch[i], 1, err) : rc;

			if (one != RC_OK)
				append(&q->now, batch[i]);
			rc = one;
		}
		return rc;
	}
	if (rc == RC_OK)
		take_answers(q, batch, n);
	else if (n > 1)
		for (size_t i = 0; i < n; i++)
			append(&q->now, batch[i]);
	return rc;
}

static void
ask_all(struct steps *q, const struct node *n, struct db *db, bool *asked_out)
{
	struct step *batch[BATCH];
	struct err err = {0};
	size_t count;

	while ((count = take_batch(q, n, batch)) > 0) {
		enum rc rc = ask(q, db, batch, count, &err);

		*asked_out = true;
		if (rc != RC_OK) {
			if (count == 1)
				append(&q->now, batch[0]);
			if (q->backoff.tries == 0)
				log_warn("steps", "answer=%s error=\"%s\"", rc_name(rc), err.text);
			q->now_us = clock_mono_us() + backoff_next_us(&q->backoff);
			return;
		}
		backoff_reset(&q->backoff);
	}
}

/* Each to whom it came from. */
static void
give_back(struct steps *q, const struct node *n)
{
	struct step_list of_handlers;

	empty(&of_handlers);
	while (q->done.first != NULL) {
		struct step *s = take_first(&q->done);

		if (s->saved != NULL)
			saved_answer(s);
		else
			append(&of_handlers, s);
	}
	if (of_handlers.first != NULL)
		handlers_answer(n->handlers, of_handlers.first);
}

int64_t
steps_round(struct steps *q, const struct node *n, struct db *db, bool *asked_out)
{
	int64_t now = clock_mono_us(), next = CLOCK_NEVER;

	*asked_out = false;
	take_inbox(q);
	if (q->locked.first != NULL && now >= q->locked_us)
		move_all(&q->now, &q->locked);
	if (q->now.first != NULL && now >= q->now_us)
		ask_all(q, n, db, asked_out);
	give_back(q, n);
	if (q->now.first != NULL)
		next = q->now_us;
	if (q->locked.first == NULL) {
		backoff_reset(&q->lock_backoff);
	} else {
		if (q->locked_us <= now)
			q->locked_us = now + backoff_next_us(&q->lock_backoff);
		next = q->locked_us < next ? q->locked_us : next;
	}
	return next;
}
