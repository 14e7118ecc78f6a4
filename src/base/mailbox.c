/*
 * The queue between threads: one lock, one condition, a linked list through the messages.
 *
 * All waiters wait for the same things, so one signal per message or poke is enough.  Signals are sent with
 * the lock held: the receiver of the last message may destroy the mailbox as soon as the sender has let go of
 * the lock.  A waiter checks, in this order: a message, the close, a poke, its deadline.  So a deadline that
 * has passed never hides a message, and a poke never overtakes one.
 */
#include "base/mailbox.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

struct mailbox {
	pthread_mutex_t lock; /* guards all below */
	pthread_cond_t cond;  /* on CLOCK_MONOTONIC */
	struct mail *first;
	struct mail **end; /* where the next message is linked */
	size_t count;
	size_t pokes;   /* not yet answered */
	size_t waiters; /* inside pop; none may be left at destroy */
	bool closed;
};

struct mailbox *
mailbox_create(void)
{
	struct mailbox *m = xcalloc(1, sizeof *m);

	m->end = &m->first;
	lock_init(&m->lock);
	clock_cond_init(&m->cond);
	return m;
}

static void
lock(struct mailbox *m)
{
	PTHREAD_OK(pthread_mutex_lock(&m->lock));
}

static void
unlock(struct mailbox *m)
{
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
}

void
mailbox_destroy(struct mailbox **m)
{
	if (*m == NULL)
		return;
	lock(*m); /* a last sender may still be on its way out */
	assert((*m)->waiters == 0);
	unlock(*m);
	PTHREAD_OK(pthread_cond_destroy(&(*m)->cond));
	PTHREAD_OK(pthread_mutex_destroy(&(*m)->lock));
	free(*m);
	*m = NULL;
}

void
mailbox_push(struct mailbox *m, struct mail *msg)
{
	msg->next = NULL;
	mailbox_push_chain(m, msg);
}

void
mailbox_push_chain(struct mailbox *m, struct mail *first)
{
	struct mail **end = &first;
	size_t n = 0;

	for (struct mail *msg = first; msg != NULL; msg = msg->next) {
		end = &msg->next;
		n++;
	}
	if (n == 0)
		return;
	lock(m);
	*m->end = first;
	m->end = end;
	m->count += n;
	if (n == 1)
		PTHREAD_OK(pthread_cond_signal(&m->cond));
	else
		PTHREAD_OK(pthread_cond_broadcast(&m->cond));
	unlock(m);
}

/* Lock released while asleep.  False: the time has passed. */
static bool
sleep_until(struct mailbox *m, int64_t until_us)
{
	bool in_time;

	if (until_us <= 0)
		return false;
	m->waiters++;
	in_time = clock_wait(&m->cond, &m->lock, until_us);
	m->waiters--;
	return in_time;
}

/* RC_OK: there is a message. */
static enum rc
wait_for_mail(struct mailbox *m, int64_t until_us)
{
	bool in_time = true;

	ASSERT_LOCKED(&m->lock);
	for (;;) {
		if (m->first != NULL)
			return RC_OK;
		if (m->closed)
			return RC_CLOSED;
		if (m->pokes > 0 && until_us > 0) { /* a pop that does not wait leaves
						     * the poke to one that does */
			m->pokes--;
			return RC_AGAIN;
		}
		if (!in_time)
			return RC_AGAIN;
		in_time = sleep_until(m, until_us);
	}
}

static struct mail *
take(struct mailbox *m, bool all)
{
	struct mail *msg = m->first;

	ASSERT_LOCKED(&m->lock);
	m->first = all ? NULL : msg->next;
	m->count = all ? 0 : m->count - 1;
	if (m->first == NULL)
		m->end = &m->first;
	if (!all)
		msg->next = NULL;
	return msg;
}

static enum rc
pop(struct mailbox *m, int64_t until_us, bool all, struct mail **out)
{
	enum rc rc;

	*out = NULL;
	lock(m);
	rc = wait_for_mail(m, until_us);
	if (rc == RC_OK)
		*out = take(m, all);
	unlock(m);
	return rc;
}

enum rc
mailbox_pop_until(struct mailbox *m, int64_t until_us, struct mail **out)
{
	return pop(m, until_us, false, out);
}

enum rc
mailbox_pop_all_until(struct mailbox *m, int64_t until_us, struct mail **out)
{
	return pop(m, until_us, true, out);
}

void
mailbox_close(struct mailbox *m)
{
	lock(m);
	m->closed = true;
	PTHREAD_OK(pthread_cond_broadcast(&m->cond));
	unlock(m);
}

void
mailbox_poke(struct mailbox *m)
{
	lock(m);
	m->pokes++;
	PTHREAD_OK(pthread_cond_signal(&m->cond));
	unlock(m);
}

size_t
mailbox_count(struct mailbox *m)
{
	size_t n;

	lock(m);
	n = m->count;
	unlock(m);
	return n;
}
