/* pgrab pause, resume, cancel, retry, run-now, skip-next, delete, undelete, seal: the functions of the same
 * names.  A task is named by its id, its key or its name. */
#include "cli/commands.h"

#define TASKS_MAX 100 /* operands a command may have; for more, use SQL */
#define NOTHING   "Nothing to do."

struct options {
	struct cli_common common;
	bool all;
};

static const struct option_key all_keys[] = {
    CLI_COMMON_ROWS,
    CLI_FLAG_ROW(all, 'a', "the switch for all tasks, on all nodes"),
    CLI_LAST_ROW,
};

static int
run_control(struct cli *c)
{
	AUTO_ARRAY struct pgarray tasks = {0};
	const char *params[1];

	for (int i = 0; i < c->n_operands; i++)
		pgarray_text(&tasks, c->operands[i]);
	params[0] = pgarray_str(&tasks);
	return cli_list(c, c->cmd->sql, 1, params, c->cmd->nothing);
}

/* The named tasks, or the switch for all. */
static int
run_or_all(struct cli *c)
{
	const struct options *o = c->options;

	if (o->all != (c->n_operands == 0))
		return cli_usage(
		    c->cmd, o->all ? "give either tasks or --all" : "name the tasks, or give --all");
	if (o->all)
		return cli_list(c, c->cmd == &cmd_pause ? "cli_pause_all" : "cli_resume_all", 0, NULL, "");
	return run_control(c);
}

#define CONTROL_ROW(word, text, none, what)                                                                  \
	{                                                                                                    \
		.name = word, .group = GROUP_DO, .usage = "TASK... [OPTIONS]", .summary = what,              \
		CLI_ONLY_COMMON, .min_operands = 1, .max_operands = TASKS_MAX, .sql = text, .nothing = none, \
		.exec = run_control,                                                                         \
	}

#define ALL_ROW(word, text, none, what)                                                                 \
	{                                                                                               \
		.name = word, .group = GROUP_DO, .usage = "TASK... | --all [OPTIONS]", .summary = what, \
		CLI_OPTIONS(all_keys), .max_operands = TASKS_MAX, .sql = text, .nothing = none,         \
		.exec = run_or_all,                                                                     \
	}

const struct command cmd_pause = ALL_ROW("pause", "cli_pause", "Nothing to do: paused already.",
    "do not start these tasks any more; running ones go on");
const struct command cmd_resume =
    ALL_ROW("resume", "cli_resume", "Nothing to do: not paused.", "let paused tasks start again");
const struct command cmd_adopt = {.name = "adopt",
    .group = GROUP_DO,
    .usage = "[OPTIONS]",
    .summary = "let the tasks of a copied or restored database run here",
    .details =
	"If a node finds its database on another server, or with another OID, than the first node did, all\n"
	"tasks are paused, because the original may still run them. This command lets them run here.",
    CLI_ONLY_COMMON,
    .sql = "cli_adopt",
    .nothing = ""};
const struct command cmd_retry =
    CONTROL_ROW("retry", "cli_retry", NOTHING, "start parked tasks again at once, with all their attempts");
const struct command cmd_run_now = CONTROL_ROW("run-now", "cli_run_now", NOTHING, "make tasks due at once");
const struct command cmd_cancel = CONTROL_ROW(
    "cancel", "cli_cancel", NOTHING, "give up the current fire; running tasks are stopped wherever they run");
const struct command cmd_skip_next = CONTROL_ROW(
    "skip-next", "cli_skip_next", NOTHING, "skip the next fire of schedules and plan the one after it");
const struct command cmd_delete = CONTROL_ROW("delete", "cli_delete", NOTHING,
    "delete tasks and their schedules; running ones are stopped, the history stays");
const struct command cmd_undelete = CONTROL_ROW("undelete", "cli_undelete", NOTHING,
    "insert deleted tasks again, as they were; schedules are planned from now on");
const struct command cmd_seal = CONTROL_ROW("seal", "cli_seal", "Nothing to do: sealed already.",
    "add no more members to batches: they end when all have ended");
