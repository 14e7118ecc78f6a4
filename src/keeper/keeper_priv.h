/* The node's side of the keeper, for its own files only: keeper.c (what others call), link.c and watch.c (the
 * thread). */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "keeper/keeper.h"
#include "keeper/wire.h"

/*
 * link.c: the node's ties to one keeper process.
 *
 * Four things tie the two together: the lifeline, a pipe whose writing end nobody but the node ever holds;
 * its counterpart, the presence, a pipe whose writing end the keeper and its shims hold; the spawn socket,
 * on which the keeper says once that it is ready and never writes again, so that our end becomes readable
 * exactly when the keeper is gone; and the page of shared memory, which outlives it.
 */
struct link {
	pid_t pid;       /* our child; 0: none */
	int spawn_fd;    /* to the keeper; each request is one datagram */
	int lifeline_fd; /* our end; closing it, also by dying, ends the keeper and all runs */
	int presence_fd; /* end of file: the keeper and all shims are gone */
};
#define LINK_NONE ((struct link){.spawn_fd = -1, .lifeline_fd = -1, .presence_fd = -1})

/* What a keeper process is started with; all borrowed. */
struct link_setup {
	int page_fd;
	int64_t kill_grace_us;
	bool cgroups;
	uint64_t nofile;      /* how many files a run may have open: the limit of the node when it began */
	const char *farewell; /* NULL: none */
	int will_fd;
};

/* RC_OK: the keeper is ready.  RC_FATAL: there is none, nothing is left open.  Any thread. */
CHECKED enum rc link_open(struct link *l, const struct link_setup *setup, struct err *err);

/* Kills the process (not its shims), waits for it and closes everything but the presence. */
void link_kill(struct link *l);
void link_close(struct link *l); /* closes what is open; the process must have been waited for */

/* True: fd became readable before until_us (clock_mono_us). */
bool link_readable(int fd, int64_t until_us);

struct keeper {
	/* constant after keeper_start */
	struct link_setup setup;
	struct wire_page *page; /* each field has its writer, see wire.h */
	int stop_fd;            /* eventfd: readable when the thread is to end */
	int broken_fd;          /* eventfd: see keeper_alive_fd */
	pthread_t thread;

	_Atomic bool hurry; /* what lost processes left gets no more grace */

	/* written under lock, by the thread only; it reads link without the lock, and anybody the rest */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct link link;
	_Atomic uint64_t life; /* number of the keeper process at link, or of the next one */
	_Atomic uint64_t gone; /* of the processes up to this one nothing is left */
	_Atomic bool stopped;

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
