/* pgrab explain */
#include "cli/commands.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

static int
run_explain(struct cli *c)
{
	if (!cli_id(c, c->operands[0]))
		return cli_usage(c->cmd, c->err.text);
	return cli_list(c, "cli_explain", 1, c->operands, "nothing to explain");
}

const struct command cmd_explain = {
    .name = "explain",
    .group = GROUP_LOOK,
    .usage = "ID [OPTIONS]",
    .summary = "every gate between a task and its run: open or shut, why, and what to do",
    .details = "The function pgrab.explain(id).",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .min_operands = 1,
    .max_operands = 1,
    .exec = run_explain,
};
