/* pgrab chains */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	int64_t limit, run;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"limit", 'l', OPTION_INT, offsetof(struct options, limit), "N", "show at most this many links", "200", 1,
	1e6},
    {"run", 'r', OPTION_INT, offsetof(struct options, run), "N",
	"draw this run of a chain, even a past one: chain_id in pgrab.chain_runs", "0", 0, 1e18},
    CLI_LAST_ROW,
};

static int
run_chains(struct cli *c)
{
	const struct options *o = c->options;
	char id[CLI_ID_SIZE];
	const char *run[] = {NUMBER(o->run)};
	const char *params[] = {c->operands[0] != NULL ? id : NULL};
	int code;

	if (o->run > 0 && c->operands[0] != NULL)
		return cli_usage(c->cmd, "--run names a run by itself: leave out TASK");
	if (o->run > 0)
		return cli_list_some(c, "cli_chain_run", 1, run, o->limit, SAYS_NO_RUNS);
	code = c->operands[0] != NULL ? cli_task_id(c, c->operands[0], id) : CLI_DONE;
	return code == CLI_DONE ? cli_list_some(c, "cli_chains", 1, params, o->limit, SAYS_NO_CHAINS) : code;
}

const struct command cmd_chains = {
    .name = "chains",
    .group = GROUP_LOOK,
    .usage = "[TASK] [OPTIONS]",
    .summary = "draw chains as trees: all of them, or that of one task",
    .details = "The view pgrab.chains. Their runs: select * from pgrab.chain_runs.",
    CLI_OPTIONS(keys),
    .max_operands = 1,
    .exec = run_chains,
};
