/* The inside of the node's handlers: handlers.c is the pools' thread, section.c makes pools from the file,
 * announce.c tells the database of them. */
#pragma once

#include <pthread.h>

#include "base/thread.h"
#include "handler/pool.h"
#include "node/context.h"
#include "node/handlers/handlers.h"
#include "node/runs/carrier.h"

/* A section of the file, taken apart. */
struct handler_section {
	char **argv, **kinds; /* one block each */
};

/* The state of a pool, as it is to be announced. */
struct announced {
	int up, slots;
	int64_t lost;
	char *fault, *library;
	char **schemas; /* by kind, as many as there are kinds */
};

struct handlers {
	struct node *node; /* borrowed */
	size_t n;
	struct pool_setup *setup;
	struct handler_section *section;
	struct pools *pools;
	pthread_t thread, announcer;
	bool started;

	/* the pools' thread's */
	struct carrier carrier;
	bool changed;

	struct gate gate; /* of the announcer: rung when something changed */
	/* under lock: by the pools' thread for the announcer */
	pthread_mutex_t lock;
	struct announced *news; /* n */
};

/* Makes pool i from the file; counts it in h->n, even after an error. */
CHECKED enum rc handlers_section(struct handlers *h, size_t i, struct err *err);

/* The announcer's thread; ends when the gate is stopped. */
void *handlers_announce_main(void *handlers);
/* From the pools' thread: notes the state of the pools. */
void handlers_note_news(struct handlers *h);
void handlers_announce_fini(struct handlers *h);
