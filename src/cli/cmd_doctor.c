/* pgrab doctor */
#include "cli/commands.h"

static bool
all_ok(const PGresult *r)
{
	for (int row = 0; row < PQntuples(r); row++) {
		if (*db_text(r, row, 1) == 'f') /* fix */
			return false;
	}
	return true;
}

static int
run_doctor(struct cli *c)
{
	int code;
	AUTO_CLEAR PGresult *r = cli_list_whole(c, "cli_doctor", 0, NULL, &code);

	if (r != NULL && !all_ok(r))
		code = CLI_FAILED;
	return code;
}

const struct command cmd_doctor = {
    .name = "doctor",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "check the server, the nodes and the tasks, and say what to do",
    .details =
	"The exit status is 1 if anything needs to be fixed; with --json it is 0, and the reader decides.",
    CLI_ONLY_COMMON,
    .exec = run_doctor,
};
