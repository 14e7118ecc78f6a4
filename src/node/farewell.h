/* "A dead node says so": what a node's keeper becomes when the node's process has died and nothing of its
 * runs is left.  It tells the database, so that others need not wait until the silence is long enough. */
#pragma once

#include "base/rc.h"
#include "node/settings/settings.h"

/* argv[1] of that process; see keeper.h. */
#define FAREWELL_ARGV1 "__farewell"

/* A memory file with all that the process needs to reach the database: connection string and environment.  It
 * is passed on by descriptor, so no password shows in a command line or an environment.  RC_AGAIN: the system
 * refused.  The caller closes it. */
CHECKED enum rc farewell_will(const struct settings *set, int *fd_out, struct err *err);

/* main() of that process.  Returns its exit code. */
int farewell_main(int argc, char **argv);
