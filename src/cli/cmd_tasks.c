/* pgrab tasks */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/commands.h"

struct options {
	struct cli_common common;
	int status;
	char *kind, *name;
	int64_t limit;
};

static const char *const statuses[] = {
    "all", "waiting", "scheduled", "claimed", "running", "parked", "done", "cancelled", "skipped", NULL};

static const struct option_key keys[] = {
    CLI_DSN_ROW,
    CLI_JSON_ROW,
    {"status", 's', OPTION_ENUM, offsetof(struct options, status), "all", 0, 0, statuses, "STATUS",
	"only with this status: waiting, scheduled, claimed, running, parked, done, cancelled, skipped",
	false},
    {"kind", 'k', OPTION_TEXT, offsetof(struct options, kind), NULL, 0, 0, NULL, "KIND",
	"only of this kind: sql, shell, ...", false},
    {"name", 'n', OPTION_TEXT, offsetof(struct options, name), NULL, 0, 0, NULL, "NAME", "only of this name",
	false},
    {"limit", 'l', OPTION_INT, offsetof(struct options, limit), "50", 1, 1e6, NULL, "N", "at most so many",
	false},
    CLI_LAST_ROW,
};

static int
run_tasks(struct cli *c)
{
	const struct options *o = c->options;
	char limit[24];
	const char *params[] = {o->status == 0 ? NULL : statuses[o->status], o->kind, o->name, limit};

	snprintf(limit, sizeof limit, "%lld", (long long)o->limit);
	return cli_list(c, "cli_tasks", 4, params, "no such tasks");
}

const struct command cmd_tasks = {
    .name = "tasks",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list tasks, live ones first, then the finished, the newest at the top",
    .details = "The view pgrab.tasks. Finished tasks are there until retention drops them.",
    .options = keys,
    .options_size = sizeof(struct options),
    .exec = run_tasks,
};
