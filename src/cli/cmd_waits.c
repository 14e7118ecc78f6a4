/* pgrab waits, pgrab batches */
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

const struct command cmd_batches = {
    .name = "batches",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list batches that have not ended: how far they are",
    .details = "The view pgrab.batches. A batch ends when it is sealed and its members have ended.\n"
	       "  pgrab add --kind batch; pgrab add --batch 17 'select work()'; pgrab seal 17",
    CLI_ONLY_COMMON,
    .sql = "cli_batches",
    .nothing = "No batch is open.",
};
