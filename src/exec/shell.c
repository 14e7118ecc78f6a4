/* Kind shell: a line for /bin/sh. */
#include "exec/child.h"

static void
shell_run(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	const char *const argv[] = {"/bin/sh", "-c", run->command, NULL};

	child_run(self, run, host, argv, result);
}

const struct pgrab_executor exec_shell = {
    .abi = PGRAB_EXECUTOR_ABI,
    .kind = "shell",
    .summary = "run a line with sh",
    .open = child_open,
    .run = shell_run,
};
