/* pgrab runs */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *task;
	int outcome;
	int64_t limit;
};

static const char *const outcomes[] = {
    "all", "succeeded", "failed", "timed_out", "cancelled", "lost", "skipped", "missed", NULL};

static const struct option_key keys[] = {
    CLI_DSN_ROW,
    CLI_JSON_ROW,
    {"task", 't', OPTION_TEXT, offsetof(struct options, task), NULL, 0, 0, NULL, "ID", "only of this task",
	false},
    {"outcome", 'o', OPTION_ENUM, offsetof(struct options, outcome), "all", 0, 0, outcomes, "OUTCOME",
	"only with this outcome: succeeded, failed, timed_out, cancelled, lost, skipped, missed", false},
    {"limit", 'l', OPTION_INT, offsetof(struct options, limit), "50", 1, 1e6, NULL, "N", "at most so many",
	false},
    CLI_LAST_ROW,
};

static int
run_runs(struct cli *c)
{
	const struct options *o = c->options;
	char limit[24];
	const char *params[] = {o->task, o->outcome == 0 ? NULL : outcomes[o->outcome], limit};

	if (o->task != NULL && !cli_id(c, o->task))
		return cli_usage(c->cmd, c->err.text);
	snprintf(limit, sizeof limit, "%lld", (long long)o->limit);
	return cli_list(c, "cli_runs", 3, params, "no such runs");
}

const struct command cmd_runs = {
    .name = "runs",
    .alias = "history",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list attempts that have ended, newest first",
    .details = "The view pgrab.history. What a run printed: pgrab show ID.",
    .options = keys,
    .options_size = sizeof(struct options),
    .exec = run_runs,
};
