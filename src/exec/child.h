/* Running a program under the keeper: what the kinds shell and exec share. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/texts.h"
#include "keeper/keeper.h"
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

/* child_plan.c: from a task's args to what the keeper is asked to run. */
struct child_plan {
	struct texts argv, env;
	struct texts asked;          /* of env, what the task asks for */
	const char *cwd;             /* NULL: not given */
	const char *umask;           /* NULL: not given; octal */
	const char *stdin_text;      /* NULL: not given */
	const char *script;          /* NULL: none; the caller's */
	struct keeper_limits limits; /* those that args names */
};

/* Borrows from run; env is what the task's own is added to.  RC_BAD: the error names what is
 * wrong in args.  Always call child_plan_fini. */
CHECKED enum rc child_plan_make(struct child_plan *p, const char *const *argv, bool takes_argv,
    const char *const *env, const struct pgrab_run *run, struct err *err);
void child_plan_fini(struct child_plan *p);
