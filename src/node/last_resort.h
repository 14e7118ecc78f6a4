/* Ends this process when a stop takes too long: a plug-in that does not return, a server that is silent. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "base/thread.h"
#include "node/control.h"

struct node;

struct last_resort {
	pthread_t thread;
	struct gate gate; /* stopped: the node has stopped in good order */
	int64_t until_us;
	struct node *node;
};

/* At the beginning of a stop, and at its end. */
void last_resort_start(struct last_resort *l, struct node *n, enum control_end why);
void last_resort_end(struct last_resort *l);
