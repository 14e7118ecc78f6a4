/* pgrab version */
#include "base/version.h"
#include "cli/commands.h"

static int
run_version(int argc, char **argv)
{
	printf("pgrab %s\n", version_text());
	return CLI_DONE;
}

const struct command cmd_version = {
    .name = "version",
    .alias = "--version",
    .group = GROUP_OTHER,
    .usage = "",
    .summary = "print the version of this program",
    .exec_argv = run_version,
};
