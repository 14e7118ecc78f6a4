/* pgrab tasks */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	int status;
	char *kind, *name, *key, *node, *source;
	int64_t limit;
};

static const char *const statuses[] = {
    "all", "waiting", "scheduled", "claimed", "running", "parked", "done", "cancelled", "skipped", NULL};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"status", 's', OPTION_ENUM, offsetof(struct options, status), "STATUS",
	"only with this status: waiting, scheduled, claimed, running, parked, done, cancelled, skipped",
	.fallback = "all", .choices = statuses},
    CLI_TEXT_ROW(kind, 'k', "KIND", "only of this kind: sql, shell, ..."),
    CLI_TEXT_ROW(name, 'n', "NAME", "only of this name (% and _ as in LIKE)"),
    CLI_TEXT_ROW(key, 0, "KEY", "only of this key (% and _ as in LIKE)"),
    CLI_TEXT_ROW(node, 0, "NODE", "only held by this node, or ended by it"),
    CLI_TEXT_ROW(source, 0, "SOURCE", "only live ones of this source"),
    CLI_LIMIT_ROW,
    CLI_LAST_ROW,
};

static int
run_tasks(struct cli *c)
{
	const struct options *o = c->options;
	const char *params[] = {
	    o->status == 0 ? NULL : statuses[o->status], o->kind, o->name, o->key, o->node, o->source};

	return cli_list_some(c, "cli_tasks", 6, params, o->limit, SAYS_NO_TASKS);
}

const struct command cmd_tasks = {
    .name = "tasks",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list tasks, first live ones, then finished ones, newest first",
    .details = "The view pgrab.tasks. Finished tasks are listed until their retention is over.",
    CLI_OPTIONS(keys),
    .exec = run_tasks,
};
