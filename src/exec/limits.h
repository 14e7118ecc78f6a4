/* What a job may use: args.limits and the node's job_limits are written in the same way. */
#ifndef PGRAB_EXEC_LIMITS_H
#define PGRAB_EXEC_LIMITS_H

#include "base/rc.h"
#include "keeper/keeper.h"

/* One limit, "memory=512MB", "processes=50" or "cpu=0.5" (processors).  RC_BAD: the text says what
 * would be right, after `where`, the name of the argument or setting. */
CHECKED enum rc limits_read(struct keeper_limits *l, const char *where, const char *text, struct err *err);

/* A task's limits within the node's, which also apply to a task that names none.  RC_BAD: it wants more. */
CHECKED enum rc limits_within(const struct keeper_limits *node, const struct keeper_limits *task,
    struct keeper_limits *out, struct err *err);

#endif
