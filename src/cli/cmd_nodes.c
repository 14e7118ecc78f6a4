/* pgrab nodes */
#include "cli/commands.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

static int
run_nodes(struct cli *c)
{
	return cli_list(c, "cli_nodes", 0, NULL, "no node has ever run here; start one: pgrab run");
}

const struct command cmd_nodes = {
    .name = "nodes",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list the nodes: state, heartbeat, how busy, their shards and claims",
    .details = "The view pgrab.nodes. busy is runs/slots at the last heartbeat; shards of 1024, "
	       "pgrab.ownership says\nwhich.",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .exec = run_nodes,
};
