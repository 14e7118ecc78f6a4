/* pgrab drain, undrain: the functions of the same names. */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	bool wait;
	int64_t timeout_us;
};

static const struct option_key drain_keys[] = {
    CLI_COMMON_ROWS,
    CLI_FLAG_ROW(wait, 'w', "wait until nothing runs there any more"),
    {"timeout", 't', OPTION_DURATION, offsetof(struct options, timeout_us), "TIME",
	"with --wait: give up after this time; the node stays drained", "1h", 0, 3.2e13},
    CLI_LAST_ROW,
};

static int
run_drain(struct cli *c)
{
	const struct options *o = c->options;
	struct cli_wait wait = {
	    .sql = "cli_drained", .n_params = 1, .params = {c->operands[0]}, .timeout_us = o->timeout_us};
	int code = cli_list(c, "cli_drain", 1, c->operands, "");

	if (code == CLI_DONE && o->wait)
		code = cli_wait(c, &wait);
	PQclear(wait.result);
	return code;
}

const struct command cmd_drain = {
    .name = "drain",
    .group = GROUP_NODES,
    .usage = "NODE [OPTIONS]",
    .summary = "let a node take no new tasks; its running tasks go on",
    .details = "It hands back what it has not started, and stays drained, even after a restart, until pgrab\n"
	       "undrain. One that has died is not reported as missing any more, by pgrab doctor or status.",
    CLI_OPTIONS(drain_keys),
    CLI_OPERANDS(1, 1),
    .exec = run_drain,
};
const struct command cmd_undrain = {
    .name = "undrain",
    .group = GROUP_NODES,
    .usage = "NODE [OPTIONS]",
    .summary = "let a drained node take tasks again",
    CLI_ONLY_COMMON,
    CLI_OPERANDS(1, 1),
    .sql = "cli_undrain",
    .nothing = "",
};
