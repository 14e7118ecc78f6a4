/* pgrab diff */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *since;
	int64_t limit;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_SINCE_ROW,
    CLI_LIMIT_ROW,
    CLI_LAST_ROW,
};

static int
run_diff(struct cli *c)
{
	const struct options *o = c->options;
	struct cli_time since;
	const char *params[] = {c->operands[0], cli_time(o->since, &since)};
	AUTO_CLEAR PGresult *r = NULL;
	int code = cli_rows(c, "cli_diff_nothing", 2, params, &r);

	return code == CLI_DONE ? cli_list_some(c, "cli_diff", 2, params, o->limit, db_text(r, 0, 0)) : code;
}

const struct command cmd_diff = {
    .name = "diff",
    .group = GROUP_LOOK,
    .usage = "TASK [OPTIONS]",
    .summary = "show how the definition of a task has changed, by whom and when, latest change first",
    .details =
	"The function pgrab.changes(); it also works for a deleted task. For the definition that a run had:\n"
	"select pgrab.definition_of(r.task_id, r.version) from pgrab.run r where ...",
    CLI_OPTIONS(keys),
    CLI_OPERANDS(1, 1),
    .exec = run_diff,
};
