/* pgrab blackout: lists windows in which nothing is started; adds or removes one. */
#include <string.h>

#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *name, *from, *schedule, *timezone, *task_like, *source, *owner, *note;
	bool skip;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_TEXT_ROW(task_like, 0, "PATTERN", "only tasks whose name (or key) is LIKE this: 'etl-%'"),
    CLI_TEXT_ROW(source, 0, "SOURCE", "only tasks of this source"),
    CLI_TEXT_ROW(owner, 0, "ROLE", "only tasks of this role"),
    CLI_FLAG_ROW(skip, 0, "what becomes due is skipped; otherwise it is held, and runs when the window ends"),
    CLI_TEXT_ROW(from, 0, "TIME",
	"when it begins (default: now): '2026-11-28 22:00', in your time zone (TZ) or "
	"with its own, '2026-11-28 22:00 Europe/Berlin'"),
    CLI_TEXT_ROW(schedule, 0, "SCHEDULE", "it begins again and again, as a task with this schedule would"),
    CLI_TEXT_ROW(timezone, 'z', "ZONE", "time zone of the schedule, such as Europe/Berlin (default UTC)"),
    CLI_TEXT_ROW(note, 0, "TEXT", "why: explain and the history repeat it"),
    CLI_TEXT_ROW(name, 0, "NAME", "what it is called (default: the time)"),
    CLI_LAST_ROW,
};

/* What the server finds wrong with it, it says. */
static int
add(struct cli *c, const struct options *o)
{
	const char *params[] = {o->name, c->operands[1], o->schedule, o->from, o->timezone, o->task_like,
	    o->source, o->owner, o->skip ? "skip" : "hold", o->note};
	AUTO_CLEAR PGresult *r = NULL;
	int code;

	if (o->from != NULL && o->schedule != NULL)
		return cli_usage(c->cmd, "--from and --schedule exclude each other");
	if (o->from != NULL && o->timezone != NULL)
		return cli_usage(c->cmd, "--timezone is of the schedule; write --from 'TIME ZONE'");
	code = cli_rows(c, "cli_blackout_add", 10, params, &r);
	if (code != CLI_DONE)
		return code;
	params[0] = db_text(r, 0, 0);
	return cli_list(c, "cli_blackouts", 1, params, "");
}

static int
drop(struct cli *c)
{
	int code = cli_found(c, "cli_blackout_remove", "blackout", c->operands[1]);

	return code == CLI_DONE ? cli_list(c, "cli_blackouts", 1, &c->operands[1], "It is gone.") : code;
}

static bool
says_which(const struct options *o)
{
	return o->name != NULL || o->from != NULL || o->schedule != NULL || o->timezone != NULL ||
	       o->task_like != NULL || o->source != NULL || o->owner != NULL || o->note != NULL || o->skip;
}

static int
run_blackout(struct cli *c)
{
	const char *verb = c->n_operands > 0 ? c->operands[0] : "list";
	const char *name[] = {c->operands[1]};

	if (strcmp(verb, "add") != 0 && says_which(c->options))
		return cli_usage(c->cmd, "these options go with add: pgrab blackout add 2h [OPTIONS]");
	if (strcmp(verb, "list") == 0)
		return cli_list(c, "cli_blackouts", 1, name, "there are no blackouts");
	if (strcmp(verb, "add") != 0 && strcmp(verb, "remove") != 0)
		return cli_usage(c->cmd, "it is one of list, add, remove");
	if (name[0] == NULL)
		return cli_usage(c->cmd, *verb == 'a' ? "how long? pgrab blackout add 2h [OPTIONS]"
						      : "which one? pgrab blackout remove NAME");
	return *verb == 'a' ? add(c, c->options) : drop(c);
}

const struct command cmd_blackout = {
    .name = "blackout",
    .alias = "blackouts",
    .group = GROUP_DO,
    .usage = "[list [NAME] | add LASTS | remove NAME] [OPTIONS]",
    .summary = "list windows in which nothing is started; add or remove one",
    .details =
	"The view pgrab.blackouts. What runs goes on; what becomes due in a window is held until its end.\n"
	"  pgrab blackout add 2h --task-like 'etl-%' --note 'move to new disks'\n"
	"  pgrab blackout add 8h --schedule '0 22 * * SAT' --timezone Europe/Berlin --name weekend\n"
	"  pgrab blackout remove weekend\n"
	"LASTS is a time such as 90m, 2h or '1 day 6 hours'. A window that is removed while it is on ends\n"
	"there: what it held begins to come, in order, ten in the first second and then more and more. It "
	"is\n"
	"listed as over for a month, because how late tasks are counts from its end; removed again, it is "
	"gone.",
    CLI_OPTIONS(keys),
    .max_operands = 2,
    .exec = run_blackout,
};
