/* pgrab runs */
#include "cli/commands.h"
#include "core/run.h"

struct options {
	struct cli_common common;
	char *task, *name, *key, *node, *source, *since, *until, *started_since, *started_until;
	int outcome;
	int64_t limit;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_TEXT_ROW(task, 't', "TASK", "only of this task: its id, key or name"),
    CLI_TEXT_ROW(name, 'n', "NAME", "only of tasks that had this name (% and _ as in LIKE)"),
    CLI_TEXT_ROW(key, 0, "KEY", "only of tasks that had this key (% and _ as in LIKE)"),
    CLI_TEXT_ROW(node, 0, "NODE", "only on this node"),
    CLI_TEXT_ROW(source, 0, "SOURCE", "only of live tasks of this source"),
    CLI_TEXT_ROW(since, 0, "TIME",
	"that ended at or after this: 2h (ago), or a time in any form that PostgreSQL accepts"),
    CLI_TEXT_ROW(until, 0, "TIME", "that ended before this"),
    CLI_TEXT_ROW(started_since, 0, "TIME", "that started at or after this"),
    CLI_TEXT_ROW(started_until, 0, "TIME", "that started before this"),
    {"outcome", 'o', OPTION_ENUM, offsetof(struct options, outcome), "OUTCOME",
	"only with this outcome: succeeded, failed, timed_out, cancelled, lost, skipped, missed, "
	"waited, preempted",
	.fallback = "all", .choices = run_outcomes_or_all},
    CLI_LIMIT_ROW,
    CLI_LAST_ROW,
};

static int
run_runs(struct cli *c)
{
	const struct options *o = c->options;
	struct cli_time since, until, started_since, started_until;
	char id[CLI_ID_SIZE] = "";
	int code = o->task == NULL ? CLI_DONE : cli_task_id(c, o->task, id);
	const char *params[] = {*id != '\0' ? id : NULL,
	    o->outcome == 0 ? NULL : run_outcomes_or_all[o->outcome], o->name, o->key, o->node, o->source,
	    cli_time(o->since, &since), cli_time(o->until, &until),
	    cli_time(o->started_since, &started_since), cli_time(o->started_until, &started_until)};

	if (code != CLI_DONE)
		return code;
	return cli_list_some(c, "cli_runs", 10, params, o->limit, SAYS_NO_RUNS);
}

const struct command cmd_runs = {
    .name = "runs",
    .alias = "history",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list attempts that have ended, newest first",
    .details = "The view pgrab.history. For the output of a run see pgrab show TASK. What ran at three:\n"
	       "pgrab runs --started-since '2026-11-23 03:00' --started-until '2026-11-23 03:05'",
    CLI_OPTIONS(keys),
    .exec = run_runs,
};
