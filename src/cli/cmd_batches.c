/* pgrab batches */
#include "cli/commands.h"

static int
run_batches(struct cli *c)
{
	return cli_list(c, "cli_batches", 0, NULL, "No batch is open.");
}

const struct command cmd_batches = {
    .name = "batches",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list batches that have not ended: how far they are",
    .details = "The view pgrab.batches. A batch ends when it is sealed and its members have ended.\n"
	       "  pgrab add --kind batch; pgrab add --batch 17 'select work()'; pgrab seal 17",
    CLI_ONLY_COMMON,
    .exec = run_batches,
};
