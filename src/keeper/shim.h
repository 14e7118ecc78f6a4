/* The process that watches a run: forked by the keeper, parent and subreaper of all that the run starts.
 * When nothing is left of one run it takes the next. */
#pragma once

#include <stdint.h>
#include <sys/resource.h>

#include "keeper/cgroup.h"

/* All borrowed from the keeper, which the shim is a fork of. */
struct shim_setup {
	const _Atomic int64_t *lease; /* shared with the node */
	int64_t kill_grace_us;
	int lifeline_fd;  /* end of file: the node is gone */
	int keeper_pidfd; /* readable: the keeper is gone */
	int sigchld_fd;   /* a signalfd: each process that reads it learns of its own signals */
	struct rlimit nofile;
	struct cgroup_base groups;
};

/* When a run that is told to stop at now_us (boot clock) is killed: kill_grace later, counted from
 * the end of the lease when that has passed. */
int64_t shim_kill_at_us(const struct shim_setup *setup, int64_t now_us);

/* line_fd is the way to the keeper: requests come on it as the node sends them, and after each, when nothing
 * of the run is left, SHIM_IDLE goes back, and then its last message to the worker.  Ends with status 0 when
 * node or keeper is gone, or when it cannot take another run; never while anything of a run is left.  Any
 * other end is for the keeper to clean up after. */
#define SHIM_IDLE 'I'
_Noreturn void shim_main(const struct shim_setup *setup, int line_fd);
