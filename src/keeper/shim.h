/*
 * The process that watches one run: forked by the keeper, parent and subreaper of all that the run starts.
 */
#ifndef PGRAB_KEEPER_SHIM_H
#define PGRAB_KEEPER_SHIM_H

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
	/* of this run */
	int run_fd, spec_fd, output_fd;
	int stdin_fd, script_fd; /* -1: none */
};

/* When a run that is told to stop at now_us (boot clock) is killed: kill_grace later, counted from
 * the end of the lease when that has passed. */
int64_t shim_kill_at_us(const struct shim_setup *setup, int64_t now_us);

/* Ends with status 0 when nothing of the run is left and the worker was told;
 * anything else is for the keeper to clean up. */
_Noreturn void shim_main(const struct shim_setup *setup);

#endif
