/*
 * The node's ties to one keeper process.
 *
 * Four things tie the two together: the lifeline, a pipe whose writing end nobody but the node ever holds;
 * its counterpart, the presence, a pipe whose writing end the keeper and its shims hold; the spawn socket,
 * on which the keeper says once that it is ready and never writes again, so that our end becomes readable
 * exactly when the keeper is gone; and the page of shared memory, which outlives it.
 */
#ifndef PGRAB_KEEPER_LINK_H
#define PGRAB_KEEPER_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/rc.h"

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

#endif
