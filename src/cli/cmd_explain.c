/* pgrab explain */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/table.h"
#include "db/report.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

/* As wide as it is: the end of a line is what to do about it. */
static int
print_gates(struct cli *c)
{
	struct screen screen = screen_look();
	struct buf out = {0};
	PGresult *r = NULL;
	enum rc rc = report_rows(cli_db(c, CLI_DEADLINE_US), "cli_explain", 1, c->operands, &r, &c->err);

	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	screen.columns = 0;
	table_print(&out, r, &screen);
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	PQclear(r);
	return CLI_DONE;
}

static int
run_explain(struct cli *c)
{
	return c->common->json ? cli_list(c, "cli_explain", 1, c->operands, "") : print_gates(c);
}

const struct command cmd_explain = {
    .name = "explain",
    .group = GROUP_LOOK,
    .usage = "TASK [OPTIONS]",
    .summary = "every gate between a task and its run: open or shut, why, and what to do",
    .details = "The function pgrab.explain(). TASK is an id, a key or a name. Verdicts: ok; waits, time or "
	       "others will open it; blocked, "
	       "it needs a\n"
	       "person, and the detail says what to do.",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .min_operands = 1,
    .max_operands = 1,
    .exec = run_explain,
};
