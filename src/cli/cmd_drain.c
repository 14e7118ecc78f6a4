/* pgrab drain, undrain: the functions of the same names. */
#include "cli/commands.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

static int
run_drain(struct cli *c)
{
	return cli_list(c, "cli_drain", 1, c->operands, "");
}

static int
run_undrain(struct cli *c)
{
	return cli_list(c, "cli_undrain", 1, c->operands, "");
}

#define DRAIN_ROW(word, what, more, fn)                                                         \
	{                                                                                       \
		.name = word, .group = GROUP_NODES, .usage = "NODE [OPTIONS]", .summary = what, \
		.details = more, .options = keys, .options_size = sizeof(struct cli_common),    \
		.min_operands = 1, .max_operands = 1, .exec = fn,                               \
	}

const struct command cmd_drain = DRAIN_ROW("drain", "let a node take no new tasks; it finishes what it runs",
    "It hands back what it has not started, and stays so, also over a restart, until pgrab undrain.\n"
    "Nothing runs there any more when pgrab nodes shows it draining and busy 0.",
    run_drain);
const struct command cmd_undrain =
    DRAIN_ROW("undrain", "let a drained node take tasks again", NULL, run_undrain);
