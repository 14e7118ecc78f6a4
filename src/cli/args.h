/*
 * The members of a task's args, as they are given on the command line.
 */
#pragma once

#include "cli/cli.h"

/* All values of --arg as a JSON object, which the caller owns; untouched when there are none. */
CHECKED enum rc cli_args(struct cli *c, char **json_out);

/* Blanks out connection strings with a password in the command line, which anybody on the machine can read.
 * Call after the settings, which are copies, have been read. */
void cli_hide_passwords(int argc, char **argv);
