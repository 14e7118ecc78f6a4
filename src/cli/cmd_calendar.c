/* pgrab calendar: lists calendars and their days; creates, changes or deletes one. */
#include <string.h>

#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *closed_weekdays, *close, *open, *forget, *note;
	bool delete;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_TEXT_ROW(closed_weekdays, 'w', "DAY[,DAY...]",
	"days of the week that are closed: sat,sun (of a new calendar, the default), or none"),
    CLI_TEXT_ROW(close, 0, "DAY[..DAY]", "closes a day such as 2026-12-25, or all from one to another"),
    CLI_TEXT_ROW(open, 0, "DAY[..DAY]", "opens days, although their weekday is closed"),
    CLI_TEXT_ROW(note, 0, "TEXT", "why, for --close and --open: the history repeats it"),
    CLI_TEXT_ROW(forget, 0, "DAY[..DAY]", "these days are as their weekday says again"),
    CLI_FLAG_ROW(delete, 0, "delete the calendar; refused while tasks use it"),
    CLI_LAST_ROW,
};

/* One statement for "DAY" or "DAY..DAY".  What the server finds wrong with them it says. */
static enum rc
set_days(struct cli *c, const char *sql, const char *days, const char *open, const char *note)
{
	const char *dots = strstr(days, "..");
	char first[64];
	const char *params[] = {c->operands[0], first, dots != NULL ? dots + 2 : first, open, note};

	snprintf(
	    first, sizeof first, "%.*s", (int)(dots != NULL ? (size_t)(dots - days) : strlen(days)), days);
	return report_rows(cli_db(c, CLI_DEADLINE_US), sql, open != NULL ? 5 : 3, params, NULL, &c->err);
}

/* All of it, or nothing. */
static enum rc
set(struct cli *c, const struct options *o)
{
	const char *params[] = {c->operands[0], o->closed_weekdays};
	struct db *db = cli_db(c, CLI_DEADLINE_US);
	enum rc rc = db_script(db, "begin", &c->err);

	if (rc == RC_OK)
		rc = report_rows(db, "cli_calendar_set", 2, params, NULL, &c->err);
	if (rc == RC_OK && o->close != NULL)
		rc = set_days(c, "cli_calendar_day", o->close, "false", o->note);
	if (rc == RC_OK && o->open != NULL)
		rc = set_days(c, "cli_calendar_day", o->open, "true", o->note);
	if (rc == RC_OK && o->forget != NULL)
		rc = set_days(c, "cli_calendar_forget", o->forget, NULL, NULL);
	return rc == RC_OK ? db_script(db, "commit", &c->err) : rc;
}

static int
run_calendar(struct cli *c)
{
	const struct options *o = c->options;
	bool sets = o->closed_weekdays != NULL || o->close != NULL || o->open != NULL || o->forget != NULL;
	const char *none[] = {NULL};
	enum rc rc;
	int code;

	if (c->n_operands == 0)
		return sets || o->delete ? cli_usage(c->cmd, "which calendar? pgrab calendar NAME [OPTIONS]")
					 : cli_list(c, "cli_calendars", 1, none, "there are no calendars");
	if (o->note != NULL && o->close == NULL && o->open == NULL)
		return cli_usage(c->cmd, "--note needs --close or --open");
	if (sets && o->delete)
		return cli_usage(c->cmd, "--delete goes alone");
	if (o->delete) {
		code = cli_found(c, "cli_calendar_delete", "calendar", c->operands[0]);
		return code == CLI_DONE ? cli_list(c, "cli_calendars", 1, c->operands, "It is gone.") : code;
	}
	if (sets && (rc = set(c, o)) != RC_OK)
		return cli_fail(c, rc, NULL);
	code = cli_found(c, "cli_calendars", "calendar", c->operands[0]);
	return code != CLI_DONE ? code
				: cli_list(c, "cli_calendar_days", 1, c->operands,
				      "from today on, every day is as its weekday says");
}

const struct command cmd_calendar = {
    .name = "calendar",
    .alias = "calendars",
    .group = GROUP_DO,
    .usage = "[NAME] [OPTIONS]",
    .summary = "list calendars, or the days of one; create, change or delete one",
    .details =
	"A schedule keeps to the open days of the calendar that its task names: --calendar of pgrab add.\n"
	"  pgrab calendar office --close 2026-12-24..2026-12-31 --note 'between the years'\n"
	"  pgrab calendar office --open 2027-01-09 --note 'stocktaking'\n"
	"For holidays from a file see pgrab import ics. Tasks that use it are planned again at once.",
    CLI_OPTIONS(keys),
    .max_operands = 1,
    .exec = run_calendar,
};
