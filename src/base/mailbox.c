#include "base/mailbox.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/thread.h"

struct mailbox {
	pthread_mutex_t lock;
	pthread_cond_t arrived; /* on CLOCK_MONOTONIC */
	struct mail *first, *last;
	size_t count;
	bool closed, poked;
};

struct mailbox *
mailbox_create(void)
{
	struct mailbox *m = xcalloc(1, sizeof *m);
	pthread_condattr_t attr;

	PTHREAD_OK(pthread_mutex_init(&m->lock, NULL));
	PTHREAD_OK(pthread_condattr_init(&attr));
	PTHREAD_OK(pthread_condattr_setclock(&attr, CLOCK_MONOTONIC));
	PTHREAD_OK(pthread_cond_init(&m->arrived, &attr));
	PTHREAD_OK(pthread_condattr_destroy(&attr));
	return m;
}

void
mailbox_destroy(struct mailbox **m)
{
	if (*m == NULL)
		return;
	PTHREAD_OK(pthread_cond_destroy(&(*m)->arrived));
	PTHREAD_OK(pthread_mutex_destroy(&(*m)->lock));
	free(*m);
	*m = NULL;
}

void
mailbox_push_chain(struct mailbox *m, struct mail *first)
{
	struct mail *last = first;
	size_t n = 1;

	if (first == NULL)
		return;
	for (; last->next != NULL; last = last->next)
		n++;
	PTHREAD_OK(pthread_mutex_lock(&m->lock));
	if (m->last == NULL)
		m->first = first;
	else
		m->last->next = first;
	m->last = last;
	m->count += n;
	PTHREAD_OK(n == 1 ? pthread_cond_signal(&m->arrived) : pthread_cond_broadcast(&m->arrived));
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
}

void
mailbox_push(struct mailbox *m, struct mail *msg)
{
	msg->next = NULL;
	mailbox_push_chain(m, msg);
}

/* Waits for something to take; lock held. */
static enum rc
await(struct mailbox *m, int64_t until_us)
{
	struct timespec ts = clock_timespec(until_us);

	for (;;) {
		if (m->first != NULL)
			return RC_OK;
		if (m->closed)
			return RC_CLOSED;
		if (m->poked) {
			m->poked = false;
			return RC_AGAIN;
		}
		if (until_us <= clock_mono_us())
			return RC_AGAIN;
		(void)pthread_cond_timedwait(&m->arrived, &m->lock, &ts);
	}
}

enum rc
mailbox_pop_until(struct mailbox *m, int64_t until_us, struct mail **out)
{
	enum rc rc;

	*out = NULL;
	PTHREAD_OK(pthread_mutex_lock(&m->lock));
	rc = await(m, until_us);
	if (rc == RC_OK) {
		*out = m->first;
		m->first = m->first->next;
		if (m->first == NULL)
			m->last = NULL;
		m->count--;
		(*out)->next = NULL;
	}
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
	return rc;
}

enum rc
mailbox_pop_all_until(struct mailbox *m, int64_t until_us, struct mail **out)
{
	enum rc rc;

	*out = NULL;
	PTHREAD_OK(pthread_mutex_lock(&m->lock));
	rc = await(m, until_us);
	if (rc == RC_OK) {
		*out = m->first;
		m->first = m->last = NULL;
		m->count = 0;
	}
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
	return rc;
}

void
mailbox_close(struct mailbox *m)
{
	PTHREAD_OK(pthread_mutex_lock(&m->lock));
	m->closed = true;
	PTHREAD_OK(pthread_cond_broadcast(&m->arrived));
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
}

void
mailbox_poke(struct mailbox *m)
{
	PTHREAD_OK(pthread_mutex_lock(&m->lock));
	m->poked = true;
	PTHREAD_OK(pthread_cond_signal(&m->arrived));
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
}

size_t
mailbox_count(struct mailbox *m)
{
	size_t n;

	PTHREAD_OK(pthread_mutex_lock(&m->lock));
	n = m->count;
	PTHREAD_OK(pthread_mutex_unlock(&m->lock));
	return n;
}
