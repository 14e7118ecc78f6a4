/* pgrab backfill */
#include "cli/commands.h"

struct options {
	struct cli_common common;
	int64_t max_running;
	bool overlap, dry_run;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"max-running", 'm', OPTION_INT, offsetof(struct options, max_running), "N",
	"how many run at once; 0: no bound of its own, for a task that is under a limit", "1", 0, 1000000},
    CLI_FLAG_ROW(
	overlap, 'o', "also fires that the schedule has yet to carry out itself, for one that is paused"),
    CLI_FLAG_ROW(dry_run, 'n', "say how many fires there are, and insert nothing"),
    CLI_LAST_ROW,
};

static int
run_backfill(struct cli *c)
{
	const struct options *o = c->options;
	struct cli_time from, until;
	const char *params[] = {c->operands[0], cli_time(c->operands[1], &from),
	    cli_time(c->operands[2], &until), NUMBER(o->max_running), o->overlap ? "t" : "f",
	    o->dry_run ? "t" : "f"};

	return cli_list(c, "cli_backfill", 6, params, "");
}

const struct command cmd_backfill = {
    .name = "backfill",
    .group = GROUP_DO,
    .usage = "TASK FROM UNTIL [OPTIONS]",
    .summary = "make up for the fires that a schedule would have had in a time that has passed",
    .details =
	"The function pgrab.backfill(). Inserts a batch of one task for each fire from FROM on and before\n"
	"UNTIL; each finds that fire in PGRAB_FIRE_AT. The schedule goes on as before. FROM and UNTIL are\n"
	"times, or how long ago: 2d. Watch it with `pgrab show BATCH`; `pgrab cancel BATCH` gives it up.\n"
	"  pgrab backfill nightly 2026-01-01 2026-02-01 --dry-run",
    CLI_OPTIONS(keys),
    CLI_OPERANDS(3, 3),
    .exec = run_backfill,
};
