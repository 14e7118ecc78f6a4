/* Running a program under the keeper: what the kinds shell and exec share. */
#ifndef PGRAB_EXEC_CHILD_H
#define PGRAB_EXEC_CHILD_H

#include <stdbool.h>
#include <stddef.h>

#include "pgrab/executor.h"

/* open() and close() of both kinds; child_run gets what child_open returned. */
void *child_open(const void *internal, char *err, size_t err_size);
void child_close(void *self);

struct child_command {
	const char *const *argv; /* ended by NULL */
	bool takes_argv;         /* the texts of args.argv follow */
	const char *script;      /* NULL: none; what the child can read from /dev/fd/KEEPER_SCRIPT_FD */
};

/* Runs the command with args.env, args.stdin and args.cwd; fills in the result.  Returns when nothing of the
 * run is left, and not before, however long that takes. */
void child_run(void *self, const struct child_command *cmd, const struct pgrab_run *run,
    const struct pgrab_host *host, struct pgrab_result *result);

#endif
