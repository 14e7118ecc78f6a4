/* pgrab limit: lists limits; creates, changes or deletes one. */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *max_running, *per_second, *break_after, *break_for;
	bool delete;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_TEXT_ROW(
	max_running, 'm', "N", "how many of its tasks may run at once; 0 stops them; none: unlimited"),
    CLI_TEXT_ROW(per_second, 's', "N",
	"how many may start within a second, 0.1 is one in ten seconds; none: unlimited"),
    CLI_TEXT_ROW(break_after, 'b', "N",
	"after N failures in a row nothing starts for a while, then one run to try; none: never"),
    CLI_TEXT_ROW(break_for, 0, "TIME", "how long that while is; without it a minute"),
    CLI_FLAG_ROW(delete, 0, "delete the limit; its tasks go on without one"),
    CLI_LAST_ROW,
};

static int
run_limit(struct cli *c)
{
	const struct options *o = c->options;
	const char *params[] = {c->operands[0], o->max_running, o->per_second, o->break_after, o->break_for};
	bool set =
	    o->max_running != NULL || o->per_second != NULL || o->break_after != NULL || o->break_for != NULL;
	int code = CLI_DONE;

	if ((set || o->delete) && params[0] == NULL)
		return cli_usage(c->cmd, "which limit? pgrab limit KEY [OPTIONS]");
	if (set && o->delete)
		return cli_usage(c->cmd, "--delete goes alone");
	if (set)
		code = cli_rows(c, "cli_limit_set", 5, params, NULL);
	else if (o->delete)
		code = cli_found(c, "cli_limit_delete", "limit", params[0]);
	if (code != CLI_DONE)
		return code;
	return cli_list(c, "cli_limits", 1, params, o->delete ? "It is gone." : SAYS_NO_LIMITS);
}

const struct command cmd_limit = {
    .name = "limit",
    .alias = "limits",
    .group = GROUP_DO,
    .usage = "[KEY] [OPTIONS]",
    .summary = "list limits and their use; create, change or delete one",
    .details = "The view pgrab.limits. A task counts against the limit that its limit_key names.\n"
	       "  pgrab limit api --max-running 5 --per-second 2\n"
	       "  pgrab limit 'tenant:*' --max-running 2 --break-after 5\n"
	       "The second is a limit of its own for each key that begins with tenant:.",
    CLI_OPTIONS(keys),
    .max_operands = 1,
    .exec = run_limit,
};
