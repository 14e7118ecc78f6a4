/* pgrab explain */
#include "cli/commands.h"

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
    .summary = "show everything that a task may be waiting for, and what to do about it",
    .details =
	"The function pgrab.explain(). TASK is an id, a key or a name. The verdicts are ok, waits (time or\n"
	"others will resolve it) and blocked (it needs you, and the detail says what to do).",
    CLI_ONLY_COMMON,
    CLI_OPERANDS(1, 1),
    .exec = run_explain,
};
