/* pgrab late, pgrab failing: what a person looks at first. */
#include "cli/all.h"
#include "cli/commands.h"

struct options {
	struct cli_common common;
	int64_t limit;
	bool all;
	char *config;
};

static const struct option_key keys[] = {CLI_COMMON_ROWS, CLI_LIMIT_ROW, CLI_ALL_ROWS, CLI_LAST_ROW};

/* The limit is the first parameter of both texts; late has a second one, the length of names. */
static int
list(struct cli *c, const char *sql, int n_params, const char *nothing)
{
	const struct options *o = c->options;
	const char *params[] = {NUMBER(o->limit), "10000"};

	if (o->all)
		return all_list(c, o->config, sql, n_params, params, nothing);
	return cli_list(c, sql, n_params, params, nothing);
}

static int
run_late(struct cli *c)
{
	return list(c, "cli_top_late", 2, "No task is late.");
}

static int
run_failing(struct cli *c)
{
	return list(c, "serve_failing", 1, "No task fails.");
}

const struct command cmd_late = {
    .name = "late",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list the tasks that are due and not started, the oldest first, and why",
    .details = "The view pgrab.late.",
    CLI_OPTIONS(keys),
    .exec = run_late,
};

const struct command cmd_failing = {
    .name = "failing",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "list the tasks whose last fire did not succeed, and since when",
    .details = "The view pgrab.failing.",
    CLI_OPTIONS(keys),
    .exec = run_failing,
};
