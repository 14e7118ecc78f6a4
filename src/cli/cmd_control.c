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

struct now_options {
	struct cli_common common;
	bool wait;
	int64_t timeout_us;
};

static const struct option_key now_keys[] = {
    CLI_COMMON_ROWS,
    {"wait", 'w', OPTION_FLAG, offsetof(struct now_options, wait), NULL,
	"wait until the fire that this makes due is over; for one task"},
    {"timeout", 't', OPTION_DURATION, offsetof(struct now_options, timeout_us), "TIME",
	"with --wait: give up after this time", "1h", 0, 3.2e13},
    CLI_LAST_ROW,
};

static void
put_tasks(const struct cli *c, struct pgarray *tasks)
{
	for (int i = 0; i < c->n_operands; i++)
		pgarray_text(tasks, c->operands[i]);
}

static int
run_control(struct cli *c)
{
	AUTO_ARRAY struct pgarray tasks = {0};
	const char *params[1];

	put_tasks(c, &tasks);
	params[0] = pgarray_str(&tasks);
	return cli_list(c, c->cmd->sql, 1, params, c->cmd->nothing);
}

/* Counted from before it was due: however soon its fire ends, it is that one. */
static int
run_now_and_wait(struct cli *c, int64_t timeout_us)
{
	AUTO_ARRAY struct pgarray tasks = {0};
	AUTO_CLEAR PGresult *r = NULL;
	const char *params[1];
	int code;

	put_tasks(c, &tasks);
	params[0] = pgarray_str(&tasks);
	code = cli_rows(c, "cli_run_now_wait", 1, params, &r);
	return code == CLI_DONE ? cli_wait_fire(c, db_text(r, 0, 0), db_text(r, 0, 1), timeout_us) : code;
}

static int
run_now(struct cli *c)
{
	const struct now_options *o = c->options;

	if (o->wait && c->n_operands > 1)
		return cli_usage(c->cmd, "--wait is for one task");
	return o->wait ? run_now_and_wait(c, o->timeout_us) : run_control(c);
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
const struct command cmd_run_now = {.name = "run-now",
    .group = GROUP_DO,
    .usage = "TASK... [OPTIONS]",
    .summary = "make tasks due at once",
    .details =
	"With --wait the exit status is 0 if it succeeded; retries are part of it. Of a chain it waits for\n"
	"this task only, not for those below it: how the chain has ended is in pgrab.chain_runs.",
    .options = now_keys,
    .options_size = sizeof(struct now_options),
    .min_operands = 1,
    .max_operands = TASKS_MAX,
    .sql = "cli_run_now",
    .nothing = NOTHING,
    .exec = run_now};
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
