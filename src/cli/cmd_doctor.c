/* pgrab doctor */
#include "cli/commands.h"
#include "cli/table.h"
#include "db/report.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

static bool
all_ok(const PGresult *r)
{
	for (int row = 0; row < PQntuples(r); row++) {
		if (*db_text(r, row, 1) != 'o')
			return false;
	}
	return true;
}

/* As wide as it is: the end of a line is what to do about it. */
static int
run_doctor(struct cli *c)
{
	struct screen screen = screen_look();
	struct buf out = {0};
	PGresult *r = NULL;
	int code;
	enum rc rc;

	if (c->common->json)
		return cli_list(c, "cli_doctor", 0, NULL, "");
	rc = report_rows(cli_db(c, CLI_DEADLINE_US), "cli_doctor", 0, NULL, &r, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	screen.columns = 0;
	table_print(&out, r, &screen);
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	code = all_ok(r) ? CLI_DONE : CLI_FAILED;
	PQclear(r);
	return code;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "check the server, the nodes and the tasks, and say what to do",
    .details = "Exit status 1 when anything is to be fixed; with --json it is the reader who decides.",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .exec = run_doctor,
};
