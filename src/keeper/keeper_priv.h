/* The inside of the node's side of the keeper, for keeper.c (what others call) and watch.c (the thread)
 * only. */
#ifndef PGRAB_KEEPER_KEEPER_PRIV_H
#define PGRAB_KEEPER_KEEPER_PRIV_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "keeper/keeper.h"
#include "keeper/link.h"
#include "keeper/wire.h"

struct keeper {
	/* constant after keeper_start */
	struct link_setup setup;
	struct wire_page *page; /* each field has its writer, see wire.h */
	int stop_fd;            /* eventfd: readable when the thread is to end */
	int broken_fd;          /* eventfd: see keeper_alive_fd */
	pthread_t thread;

	_Atomic bool hurry; /* what lost processes left gets no more grace */

	/* under lock; link and life are written by the thread only, which reads them without it */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct link link;
	uint64_t life; /* number of the keeper process at link, or of the next one */
	uint64_t gone; /* of the processes up to this one nothing is left */
	bool stopped;

	/* the thread's own */
	int64_t last_tick, ticked_us; /* when the tick was last seen to change, clock_mono_us */
	unsigned still;               /* looks in a row that found it unchanged */
	int grave_fd;                 /* presence of the last keeper process that was lost; -1: none */
	bool burying;                 /* something of lost processes may be left */
	int64_t kill_at_us;           /* burying: until then its shims may end their runs in good order */
	int64_t lost_us;              /* no keeper since then, clock_mono_us */
	int64_t retry_us;             /* the next try to make one */
};

/* Thread that keeps a keeper alive until stop_fd is readable; then sees the last one off. */
void *watch_main(void *keeper);

#endif
