/* What other threads tell the heartbeat: that there is something to read, and what other nodes have said. */
#include <string.h>

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
	gate_ring(&h->gate);
}

bool
heartbeat_take_heard(struct heartbeat *h)
{
	struct heard heard[HEARD_MAX];
	size_t n;
	bool rung, is_new = false;

	PTHREAD_OK(pthread_mutex_lock(&h->lock));
	n = h->n_heard;
	memcpy(heard, h->heard, n * sizeof *heard);
	rung = h->rung;
	h->n_heard = 0;
	h->rung = false;
	PTHREAD_OK(pthread_mutex_unlock(&h->lock));
	for (size_t i = 0; i < n; i++) {
		if (heard[i].news == MEMBER_JOINS)
			heartbeat_want_others(h, h->members.last_look_us + heartbeat_others_gap(h));
		else
			is_new = members_hear(&h->members, heard[i].node_id, heard[i].news) || is_new;
	}
	if (is_new)
		heartbeat_publish(h);
	return rung;
}
