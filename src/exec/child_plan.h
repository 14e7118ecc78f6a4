/* From a task's args to what the keeper is asked to run. */
#ifndef PGRAB_EXEC_CHILD_PLAN_H
#define PGRAB_EXEC_CHILD_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "base/texts.h"
#include "keeper/keeper.h"
#include "pgrab/executor.h"

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

#endif
