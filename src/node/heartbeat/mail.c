/* What other threads tell the heartbeat: that there is something to read, and what other nodes have said. */
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "node/heartbeat/heartbeat.h"
#include "node/heartbeat/private.h"

void
heartbeat_ring(struct heartbeat *h)
{
	WITH_LOCK(&h->lock);
	h->rung = true;
	gate_ring(&h->gate);
}

void
heartbeat_hear(struct heartbeat *h, int64_t node_id, enum member_news news)
{
	WITH_LOCK(&h->lock);
	if (h->n_heard < HEARD_MAX)
		h->heard[h->n_heard++] = (struct heard){.node_id = node_id, .news = news};
	else
		h->unread = true;
	gate_ring(&h->gate);
}

void
heartbeat_hear_joins(struct heartbeat *h)
{
	WITH_LOCK(&h->lock);
	h->unread = true;
	gate_ring(&h->gate);
}

/* Who leaves is passed on at once.  Where many do so one after the other, the others follow together with the
 * next beat: each change of the picture is a look, and a write of which shards are ours, on every node. */
static void
pass_on(struct heartbeat *h, bool leaves, bool busy)
{
	int64_t now = clock_mono_us(), from_us = h->passed_on_us + heartbeat_others_gap(h);
	bool later = leaves && now < from_us;

	if (later)
		heartbeat_want_others(h, from_us);
	else if (leaves)
		h->passed_on_us = now;
	if (busy || (leaves && !later))
		heartbeat_publish(h);
}

bool
heartbeat_take_heard(struct heartbeat *h)
{
	struct heard heard[HEARD_MAX];
	size_t n;
	bool rung, unread, leaves = false, busy = false;

	PTHREAD_OK(pthread_mutex_lock(&h->lock));
	n = h->n_heard;
	memcpy(heard, h->heard, n * sizeof *heard);
	rung = h->rung;
	unread = h->unread;
	h->n_heard = 0;
	h->rung = h->unread = false;
	PTHREAD_OK(pthread_mutex_unlock(&h->lock));
	for (size_t i = 0; i < n; i++) {
		if (members_hear(&h->members, heard[i].node_id, heard[i].news))
			*(heard[i].news == MEMBER_LEAVES ? &leaves : &busy) = true;
	}
	pass_on(h, leaves, busy);
	if (unread)
		heartbeat_want_others(h, h->members.last_look_us + heartbeat_others_gap(h));
	return rung;
}
