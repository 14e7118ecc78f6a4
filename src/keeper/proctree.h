/* Everything that descends from a process, read from /proc/<pid>/stat (the kernel need not have been built
 * with /proc/<pid>/task/<tid>/children).  Signals go through a pidfd after a second look at the start time,
 * so that a process id that was reused meanwhile is never hit. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* True: leave this child of root alone, and all that descends from it. */
typedef bool (*proctree_spare_fn)(pid_t pid, void *ctx);

/* Sends sig to every descendant of root, not to root itself; spare may be NULL.  Returns how many there were,
 * counting those that are dead and not yet waited for; never 0 when /proc could not be read. */
size_t proctree_signal(pid_t root, int sig, proctree_spare_fn spare, void *ctx);

/* Stops them all, so that none forks while we look, then kills them.  Returns as proctree_signal.  A process
 * that was missed (its parent died while we read) shows up at the next call; the caller, who is the
 * subreaper, gets a SIGCHLD for that death and calls again. */
size_t proctree_kill(pid_t root, proctree_spare_fn spare, void *ctx);

/* For a process that must lose all its descendants, since everything below it is meant to die.  The process
 * group of one of its children, which may be dead, but not yet waited for. */
void proctree_kill_group(pid_t member);
/* Children with the numbers that follow one that has died: what the dead one may have forked last and handed
 * on to us, and what these have.  The caller reaps them. */
void proctree_chase(pid_t dead, proctree_spare_fn spare, void *ctx);

struct proctree {
	pid_t *pid;
	size_t count;
};

/* All descendants of root, or with direct_only its children.  False: there is no /proc to read.  Free pid. */
bool proctree_below(pid_t root, bool direct_only, struct proctree *out);

/* One process, for people.  False: it is gone. */
struct proc_view {
	pid_t parent;
	char state; /* as in ps(1): R, S, D, T, Z, ... */
	char name[32];
};
bool proc_look(pid_t pid, struct proc_view *out);
