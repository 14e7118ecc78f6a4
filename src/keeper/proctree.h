/*
 * The processes below one process, from /proc.  A snapshot: who forks meanwhile is found by asking again.
 */
#ifndef PGRAB_KEEPER_PROCTREE_H
#define PGRAB_KEEPER_PROCTREE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct proctree {
	pid_t *pid;
	size_t count;
};

/* All living descendants of root, zombies left out; with direct_only its children.  False: /proc could not be
 * read.  Free pid. */
bool proctree_below(pid_t root, bool direct_only, struct proctree *out);

/* Sends sig to every descendant of root that is not in spare (n_spare pids and what is below them).  Returns
 * how many there were, -1 on error. */
int proctree_signal(pid_t root, int sig, const pid_t *spare, size_t n_spare);

#endif
