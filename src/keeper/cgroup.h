/* A control group (version 2) per run, where we may make one: as root, or in a unit with Delegate=yes.  One
 * write kills all that is in it at once, and it bounds memory, processes and processor time.  Where there is
 * none, the walk over the processes (proctree.h) does the killing alone, and only memory can be bounded. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "keeper/keeper.h"

/* The keeper's own group, in which those of its runs are made.  Its shims inherit it. */
struct cgroup_base {
	int fd;                 /* the folder; -1: no groups here */
	pid_t node;             /* part of the names, because several nodes may share a group */
	bool memory, pids, cpu; /* what can be limited */
	pid_t *old;             /* shims of earlier keepers of this node whose groups are still there */
	size_t n_old;
};

/* Finds it and tries it out; kills what an earlier keeper of this node left, and removes that, and empty
 * groups of nodes that are gone. */
void cgroup_base_open(struct cgroup_base *b, pid_t node);
/* What was killed then takes a moment to die: removes the groups that are empty by now. */
void cgroup_base_sweep(struct cgroup_base *b);

/* A run's group; fd -1: none. */
struct cgroup {
	int fd;
	int base_fd;
	char name[48];
	bool memory; /* it bounds memory when that is asked for */
};

/* False with errno when a group with these limits cannot be made; then out has none.
 * shim: part of the name. */
bool
cgroup_make(const struct cgroup_base *b, pid_t shim, const struct keeper_limits *limits, struct cgroup *out);

bool cgroup_enter(const struct cgroup *c); /* the calling process, which has one thread */
void cgroup_kill(const struct cgroup *c);
int cgroup_memory_kills(const struct cgroup *c); /* processes killed because the group's memory was used up */
int64_t cgroup_memory_peak(const struct cgroup *c, int64_t otherwise); /* bytes; the kernel may not know */
bool cgroup_remove(struct cgroup *c); /* when nothing is in it any more; false: it is still there */

/* The same for a run whose shim is dead: kills what is in it; removes it when it is empty. */
void cgroup_kill_of(const struct cgroup_base *b, pid_t shim);
