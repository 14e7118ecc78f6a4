/*
 * What shell and exec share: a child process by way of the keeper, its environment, its output.
 */
#ifndef PGRAB_EXEC_CHILD_H
#define PGRAB_EXEC_CHILD_H

#include "exec/exec.h"

/*
 * Runs argv (ended by NULL, borrowed) with the run's args env, stdin and cwd, waits for its end, and fills in
 * result.  Output goes to host->output.  Returns when nothing of the run is left alive, or the keeper is
 * gone.
 */
void child_run(const struct exec_env *env, const struct pgrab_run *run, const struct pgrab_host *host,
    const char *const *argv, struct pgrab_result *result);

/* open() of both executors: the exec_env itself is all they keep.  Without a keeper it fails. */
void *child_open(const void *internal, char *err, size_t err_size);

#endif
