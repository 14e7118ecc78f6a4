/* pgrab batches */
#include "cli/commands.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

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
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .exec = run_batches,
};
