/*
 * pgrab pause, resume, cancel, retry, run-now, skip-next, delete, undelete, seal: the functions of the same
 * names.  A task is named by its id, its key or its name.
 */
#include <stddef.h>
#include <string.h>

#include "cli/commands.h"

#define TASKS_MAX 100 /* operands a command may have; for more, use SQL */

struct all_options {
	struct cli_common common;
	bool all;
};

static const struct option_key all_keys[] = {
    CLI_COMMON_ROWS,
    {"all", 'a', OPTION_FLAG, offsetof(struct all_options, all), NULL,
	"the switch for all tasks, on all nodes"},
    CLI_LAST_ROW,
};

static const struct control {
	const char *command, *sql, *all_sql, *nothing;
} controls[] = {
    {"pause", "cli_pause", "cli_pause_all", "Nothing to do: paused already."},
    {"resume", "cli_resume", "cli_resume_all", "Nothing to do: not paused."},
    {"retry", "cli_retry", NULL, "Nothing to do."},
    {"run-now", "cli_run_now", NULL, "Nothing to do."},
    {"cancel", "cli_cancel", NULL, "Nothing to do."},
    {"skip-next", "cli_skip_next", NULL, "Nothing to do."},
    {"delete", "cli_delete", NULL, "Nothing to do."},
    {"undelete", "cli_undelete", NULL, "Nothing to do."},
    {"seal", "cli_seal", NULL, "Nothing to do: sealed already."},
};

static int
run_control(struct cli *c)
{
	const struct control *k = controls;
	AUTO_ARRAY struct pgarray tasks = {0};
	const char *params[1];

	while (strcmp(k->command, c->cmd->name) != 0)
		k++;
	for (int i = 0; i < c->n_operands; i++)
		pgarray_text(&tasks, c->operands[i]);
	params[0] = pgarray_str(&tasks);
	/* Without operands it is the switch for all, see run_or_all(). */
	return c->n_operands > 0 ? cli_list(c, k->sql, 1, params, k->nothing)
				 : cli_list(c, k->all_sql, 0, NULL, "");
}

/* The named tasks, or the switch for all. */
static int
run_or_all(struct cli *c)
{
	const struct all_options *o = c->options;

	if (o->all != (c->n_operands == 0))
		return cli_usage(
		    c->cmd, o->all ? "give either tasks or --all" : "name the tasks, or give --all");
	return run_control(c);
}

static int
run_adopt(struct cli *c)
{
	return cli_list(c, "cli_adopt", 0, NULL, "");
}

#define CONTROL_ROW(word, what)                                                                     \
	{                                                                                           \
		.name = word, .group = GROUP_DO, .usage = "TASK... [OPTIONS]", .summary = what,     \
		CLI_ONLY_COMMON, .min_operands = 1, .max_operands = TASKS_MAX, .exec = run_control, \
	}

#define ALL_ROW(word, what)                                                                                 \
	{                                                                                                   \
		.name = word, .group = GROUP_DO, .usage = "TASK... | --all [OPTIONS]", .summary = what,     \
		.options = all_keys, .options_size = sizeof(struct all_options), .max_operands = TASKS_MAX, \
		.exec = run_or_all,                                                                         \
	}

const struct command cmd_pause = ALL_ROW("pause", "do not start these tasks any more; running ones go on");
const struct command cmd_resume = ALL_ROW("resume", "let paused tasks start again");
const struct command cmd_adopt = {.name = "adopt",
    .group = GROUP_DO,
    .usage = "[OPTIONS]",
    .summary = "let the tasks of a copied or restored database run here",
    .details =
	"If a node finds its database on another server, or with another OID, than the first node did, all\n"
	"tasks are paused, because the original may still run them. This command lets them run here.",
    CLI_ONLY_COMMON,
    .exec = run_adopt};
const struct command cmd_retry =
    CONTROL_ROW("retry", "start parked tasks again at once, with all their attempts");
const struct command cmd_run_now = CONTROL_ROW("run-now", "make tasks due at once");
const struct command cmd_cancel =
    CONTROL_ROW("cancel", "give up the current fire; running tasks are stopped wherever they run");
const struct command cmd_skip_next =
    CONTROL_ROW("skip-next", "skip the next fire of schedules and plan the one after it");
const struct command cmd_delete =
    CONTROL_ROW("delete", "delete tasks and their schedules; running ones are stopped, the history stays");
const struct command cmd_undelete =
    CONTROL_ROW("undelete", "insert deleted tasks again, as they were; schedules are planned from now on");
const struct command cmd_seal =
    CONTROL_ROW("seal", "add no more members to batches: they end when all have ended");
