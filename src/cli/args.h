/*
 * The members of a task's args, as they are given on the command line.
 */
#ifndef PGRAB_CLI_ARGS_H
#define PGRAB_CLI_ARGS_H

#include "cli/cli.h"

/* All values of --arg as a JSON object, which is the caller's; untouched when there is none. */
CHECKED enum rc cli_args(struct cli *c, char **json_out);

#endif
