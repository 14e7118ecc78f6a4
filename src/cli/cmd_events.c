/* pgrab events */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *task, *role, *since;
	int64_t limit;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_TEXT_ROW(task, 't', "TASK", "only what was done to this task: its id, key or name"),
    CLI_TEXT_ROW(role, 0, "ROLE", "only what this role did"),
    CLI_SINCE_ROW,
    CLI_LIMIT_ROW,
    CLI_LAST_ROW,
};

static int
run_events(struct cli *c)
{
	const struct options *o = c->options;
	struct cli_time since;
	char id[CLI_ID_SIZE] = "";
	int code = o->task == NULL ? CLI_DONE : cli_task_id(c, o->task, id);
	const char *params[] = {*id != '\0' ? id : NULL, o->role, cli_time(o->since, &since)};

	if (code != CLI_DONE)
		return code;
	return cli_list_some(c, "cli_events", 3, params, o->limit, "nothing was done");
}

const struct command cmd_events = {
    .name = "events",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list who did what to tasks, limits and nodes, newest first",
    .details = "The view pgrab.events. For the runs of tasks see pgrab runs.",
    CLI_OPTIONS(keys),
    .exec = run_events,
};
