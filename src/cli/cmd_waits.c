/* pgrab waits */
#include "cli/commands.h"

const struct command cmd_waits = {
    .name = "waits",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list what waits for a signal, an answer or members, the longest wait first",
    .details = "The view pgrab.waits. See pgrab signal, pgrab resolve and pgrab seal.",
    CLI_ONLY_COMMON,
    .sql = "cli_waits",
    .nothing = "No task waits for anything from outside.",
};
