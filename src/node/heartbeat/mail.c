/* What other threads tell the heartbeat: that there is something to read, and who has said that it is
 * busy. */
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
heartbeat_busy(struct heartbeat *h, int64_t node_id)
{
	WITH_LOCK(&h->lock);
	if (h->n_busy < BUSY_MAX)
		h->busy[h->n_busy++] = node_id;
	gate_ring(&h->gate);
}

bool
heartbeat_take_busy(struct heartbeat *h)
{
	int64_t busy[BUSY_MAX];
	size_t n;
	bool rung, news = false;

	PTHREAD_OK(pthread_mutex_lock(&h->lock));
	n = h->n_busy;
	memcpy(busy, h->busy, n * sizeof *busy);
	rung = h->rung;
	h->n_busy = 0;
	h->rung = false;
	PTHREAD_OK(pthread_mutex_unlock(&h->lock));
	for (size_t i = 0; i < n; i++)
		news = members_busy(&h->members, busy[i]) || news;
	if (news)
		heartbeat_publish(h);
	return rung;
}
