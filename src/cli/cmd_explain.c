/* pgrab explain */
#include "cli/commands.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

static int
run_explain(struct cli *c)
{
	int code;

	PQclear(cli_list_whole(c, "cli_explain", 1, c->operands, &code));
	return code;
}

const struct command cmd_explain = {
    .name = "explain",
    .group = GROUP_LOOK,
    .usage = "TASK [OPTIONS]",
    .summary = "every gate between a task and its run: open or shut, why, and what to do",
    .details = "The function pgrab.explain(). TASK is an id, a key or a name. Verdicts: ok; waits, time or "
	       "others will open it; blocked, "
	       "it needs a\n"
	       "person, and the detail says what to do.",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .min_operands = 1,
    .max_operands = 1,
    .exec = run_explain,
};
