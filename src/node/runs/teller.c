/* See teller.h.  What cannot be written is written again, all of it, when the database is back. */
#include "node/runs/teller.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "core/backoff.h"
#include "node/context.h"
#include "node/runs/live.h"
#include "node/runs/steps.h"

#define PATIENCE_US (1 * US_PER_S)    /* a stop that takes no longer is not worth telling */
#define ANSWER_US   (200 * US_PER_MS) /* between two answers: nobody can make a node write more often */
#define CALL_US     (2 * US_PER_S)    /* of a statement: nothing depends on it */
#define KEEP_US     (60 * US_PER_S)   /* the connection, while nothing is said */
#define ANSWERS     16                /* outputs of 64 KiB in one statement */

struct teller {
	struct node *node; /* borrowed */
	pthread_t thread;
	struct gate gate;
	_Atomic bool asked, changed;
	/* owned by the thread */
	struct db *db;
	struct backoff backoff;
	bool again;                 /* what was told may not have got through: tell all of it again */
	int64_t tell_us, answer_us; /* not before */
	int64_t close_us;           /* the connection, when nothing is said */
	struct steps steps;         /* its inbox is anybody's */
};

/* Outputs of up to ANSWERS runs, in one transaction with taking the requests, so that none is lost. */
static enum rc
answer_some(struct teller *t, size_t *n_out, struct err *err)
{
	struct live_key key[ANSWERS];
	struct live_output out[ANSWERS];
	int64_t incarnation = atomic_load(&t->node->incarnation);
	enum rc rc = db_begin(t->db, "", err);

	*n_out = 0;
	if (rc == RC_OK)
		rc = store_live_asked(t->db, incarnation, key, ANSWERS, n_out, err);
	for (size_t i = 0; i < *n_out; i++)
		lives_output(&t->node->lives, &key[i], &out[i]);
	if (rc == RC_OK)
		rc = store_live_answer(t->db, out, *n_out, err);
	if (rc == RC_OK)
		rc = db_script(t->db, "commit", err);
	for (size_t i = 0; i < *n_out; i++) {
		free(out[i].text);
		if (rc != RC_OK)
			lives_not_shown(&t->node->lives, &key[i]);
	}
	return rc;
}

static enum rc
answer(struct teller *t, struct err *err)
{
	size_t n = ANSWERS;
	enum rc rc = RC_OK;

	atomic_store(&t->asked, false);
	while (rc == RC_OK && n == ANSWERS)
		rc = answer_some(t, &n, err);
	if (rc != RC_OK)
		atomic_store(&t->asked, true);
	t->answer_us = clock_mono_us() + ANSWER_US;
	return rc;
}

/* *next_us: when there may be more to say. */
static enum rc
tell(struct teller *t, int64_t *next_us, struct err *err)
{
	struct live_changes c;
	enum rc rc = RC_OK;

	atomic_store(&t->changed, false);
	lives_changes(&t->node->lives, t->again, PATIENCE_US, &c);
	if (c.next_us < *next_us)
		*next_us = c.next_us;
	if (c.n_notes + c.n_ended > 0) {
		rc = store_live_tell(t->db, c.notes, c.n_notes, c.ended, c.n_ended, err);
		t->tell_us = clock_mono_us() + t->node->set->heartbeat_us;
	}
	if (rc != RC_OK)
		lives_not_taken_back(&t->node->lives, c.ended, c.n_ended);
	t->again = rc != RC_OK;
	free(c.notes);
	free(c.ended);
	return rc;
}

/* What is due now; *next_us: when something will be. */
static enum rc
say(struct teller *t, int64_t *next_us, struct err *err)
{
	int64_t now = clock_mono_us();
	enum rc rc = RC_OK;

	if (atomic_load(&t->asked)) {
		if (now >= t->answer_us)
			rc = answer(t, err);
		else
			*next_us = t->answer_us;
	}
	if (rc == RC_OK && now >= t->tell_us)
		rc = tell(t, next_us, err);
	else if (rc == RC_OK && atomic_load(&t->changed) && t->tell_us < *next_us)
		*next_us = t->tell_us;
	return rc;
}

static int64_t
next_round(struct teller *t)
{
	struct err err = {0};
	bool asked;
	int64_t next = steps_round(&t->steps, t->node, t->db, &asked), now;
	enum rc rc = say(t, &next, &err);

	now = clock_mono_us();
	if (rc != RC_OK) {
		if (t->backoff.tries == 0)
			log_warn("teller", "answer=%s error=\"%s\"", rc_name(rc), err.text);
		db_disconnect(t->db); /* and an open transaction with it */
		t->tell_us = now + backoff_next_us(&t->backoff);
		t->answer_us = t->tell_us;
		return next < t->tell_us ? next : t->tell_us;
	}
	backoff_reset(&t->backoff);
	if (db_conn(t->db) == NULL)
		return next;
	if (asked || t->tell_us > t->close_us - KEEP_US || t->answer_us > t->close_us - KEEP_US)
		t->close_us = now + KEEP_US;
	if (now >= t->close_us)
		db_disconnect(t->db);
	return next < t->close_us ? next : t->close_us;
}

static void *
teller_main(void *arg)
{
	struct teller *t = arg;
	int64_t next = CLOCK_NEVER;
	struct err ignored;

	while (gate_wait(&t->gate, next) != GATE_STOPPED)
		next = next_round(t);
	/* Nothing runs any more: what was told is taken back, if that can be done at once.  Else
	 * upkeep does it. */
	if (db_conn(t->db) != NULL && !t->again)
		(void)!tell(t, &next, &ignored);
	return NULL;
}

struct teller *
teller_start(struct node *n)
{
	struct teller *t = xcalloc(1, sizeof *t);

	t->node = n;
	gate_init(&t->gate);
	steps_init(&t->steps);
	t->db = db_create(n->set->dsn, "pgrab teller", CALL_US);
	db_be(t->db, DB_OF_NODE | DB_PATIENT | DB_KEEPS);
	backoff_init(&t->backoff, US_PER_S, 30 * US_PER_S, (uint64_t)clock_mono_us());
	thread_start(&t->thread, "teller", teller_main, t);
	return t;
}

void
teller_stop(struct teller **tp)
{
	struct teller *t = *tp;

	if (t == NULL)
		return;
	gate_stop(&t->gate);
	thread_join(t->thread);
	db_destroy(&t->db);
	steps_fini(&t->steps);
	gate_fini(&t->gate);
	free(t);
	*tp = NULL;
}

void
teller_ring(struct teller *t)
{
	if (t == NULL)
		return;
	atomic_store(&t->changed, true);
	gate_ring(&t->gate);
}

void
teller_step(struct teller *t, struct step *s)
{
	mailbox_push(t->steps.inbox, &s->mail);
	gate_ring(&t->gate);
}

void
teller_ask(struct teller *t)
{
	if (t == NULL)
		return;
	atomic_store(&t->asked, true);
	gate_ring(&t->gate);
}
