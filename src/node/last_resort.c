#include "node/last_resort.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "keeper/keeper.h"
#include "node/context.h"

#define STOP_US \
	(2500 * US_PER_MS) /* a stop may take this much beyond drain_timeout and
			    * kill_grace; then the process exits */

static void *
last_resort_main(void *arg)
{
	struct last_resort *l = arg;

	if (gate_pause(&l->gate, l->until_us)) {
		log_error("not_stopped", "in_hand=%" PRId64 " hint=\"%s\"", atomic_load(&l->node->in_hand),
		    "something does not end; the process exits, and others recover its tasks when they miss "
		    "its heartbeats");
		keeper_no_grace(l->node->keeper, clock_mono_us() + US_PER_S / 2);
		log_flush();
		_exit(1); /* threads still run: nothing may be torn down under them */
	}
	return NULL;
}

void
last_resort_start(struct last_resort *l, struct node *n, enum control_end why)
{
	const struct settings *set = n->set;

	l->node = n;
	l->until_us = clock_mono_us() + set->kill_grace_us + STOP_US +
		      (why == CONTROL_STOP ? set->drain_timeout_us : 2 * US_PER_S);
	gate_init(&l->gate);
	thread_start(&l->thread, "last_resort", last_resort_main, l);
}

void
last_resort_end(struct last_resort *l)
{
	gate_stop(&l->gate);
	thread_join(l->thread);
	gate_fini(&l->gate);
}
