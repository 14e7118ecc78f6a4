/* pgrab next: asks the database's calendar, which the nodes use too. */
#include "base/texts.h"
#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *timezone, *after, *calendar, *on_closed;
	int64_t count;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"timezone", 'z', OPTION_TEXT, offsetof(struct options, timezone), "ZONE",
	"time zone of the schedule, such as Europe/Berlin", "UTC"},
    CLI_TEXT_ROW(after, 'a', "TIME",
	"show fires after this time, in any form that PostgreSQL accepts; UTC unless it names a zone "
	"(default now)"),
    CLI_TEXT_ROW(calendar, 0, "NAME", "only on the open days of this calendar"),
    {"on_closed", 0, OPTION_TEXT, offsetof(struct options, on_closed), "WORD",
	"what happens to a fire on a closed day: skip; next, previous: it moves to that open day", "skip"},
    {"count", 'n', OPTION_INT, offsetof(struct options, count), "N", "how many", "5", 1, 1000},
    CLI_LAST_ROW,
};

static int
run_next(struct cli *c)
{
	const struct options *o = c->options;
	const char *params[] = {
	    c->operands[0], o->timezone, o->after, NUMBER(o->count), o->calendar, o->on_closed};
	const char *check[] = {c->operands[0], o->timezone, o->after, o->calendar, o->on_closed};
	enum rc rc = report_rows(cli_db(c, CLI_DEADLINE_US), "cli_next_check", 5, check, NULL, &c->err);

	/* 22023 comes from the calendar; 22007 and 22008 are PostgreSQL's, for an invalid time. */
	if (rc == RC_BAD && IS_ONE_OF(c->err.sqlstate, "22023", "22007", "22008"))
		return cli_usage(c->cmd, c->err.text);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	return cli_list(c, "cli_next", 6, params, "it never fires after that");
}

const struct command cmd_next = {
    .name = "next",
    .group = GROUP_LOOK,
    .usage = "'EXPR' [OPTIONS]",
    .summary = "show when a schedule fires next, in its time zone and in UTC",
    .details = "EXPR is a value of pgrab.task.schedule, quoted for the shell: cron with five or six fields,\n"
	       "@hourly and so on, @every 90s, @after 90s (counted as if each run took no time).\n"
	       "  pgrab next '0 9 * * MON-FRI' --timezone Europe/Berlin\n"
	       "  pgrab next '30 2 * * *' --timezone Europe/Berlin --after 2026-03-27 --count 3\n"
	       "Where there is room for it: the page /month of pgrab serve, the function pgrab.month().",
    .also = "A month of all schedules: pgrab serve shows it as a picture at /month",
    CLI_OPTIONS(keys),
    CLI_OPERANDS(1, 1),
    .in_utc = true,
    .exec = run_next,
};
