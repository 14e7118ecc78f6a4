/*
 * The shims of a keeper process: which of them carries out which run, and which wait for the next.
 *
 * Making a process of the keeper's size takes longer than all else that a shim does for a short run.  So
 * one whose run is over is kept for the next, and those that are not needed for a while are ended, but for
 * the last.
 *
 * A shim that was killed leaves its run to us, the next subreaper, and one that is frozen is killed when what
 * it should have done is overdue.  We hold on to the shim's end of each run socket until nothing of the run
 * is left, so a worker's half-close of its end reaches us too, and we can speak for a shim that was killed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "keeper/shim.h"
#include "keeper/wire.h"

struct shims {
	const struct shim_setup *setup; /* for each of them */
	int not_theirs[2];              /* descriptors that no shim may have; -1: none */
	size_t count, busy, orphaned;
	struct keeper_shim *item;
	struct pollfd *poll; /* two for each */
};

/* Takes over fds, of which n are there. */
void shims_start(struct shims *s, int fds[WIRE_FD__COUNT], size_t n);

/* Learns which runs are over and which are to end; to be called a few times a second. */
void shims_look(struct shims *s);

/* Takes note of the dead among our children.  False: there were none. */
bool shims_reap(struct shims *s);
/* Kills those that are overdue; from now on all are to end their runs when ending says so. */
void shims_check(struct shims *s, bool ending);
/* Ends those that have been idle for a while or are stopped, or all that are idle. */
void shims_retire(struct shims *s, bool all);
/* Kills what killed shims have left to us; call again while any are orphaned. */
void shims_kill_strays(struct shims *s);
