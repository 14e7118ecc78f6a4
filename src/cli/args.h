/*
 * The members of a task's args, as they are given on the command line.
 */
#ifndef PGRAB_CLI_ARGS_H
#define PGRAB_CLI_ARGS_H

#include "cli/cli.h"

/* All values of --arg as a JSON object, which is the caller's; untouched when there is none. */
CHECKED enum rc cli_args(struct cli *c, char **json_out);

/* Takes connection strings with a password out of the command line, which is shown to everybody.
 * After the settings were read, which are copies. */
void cli_hide_passwords(int argc, char **argv);

#endif
