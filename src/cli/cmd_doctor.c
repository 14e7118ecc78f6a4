/* pgrab doctor */
#include "cli/commands.h"

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

static int
run_doctor(struct cli *c)
{
	int code;
	PGresult *r = cli_list_whole(c, "cli_doctor", 0, NULL, &code);

	if (r != NULL && !all_ok(r))
		code = CLI_FAILED;
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
