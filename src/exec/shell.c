/*
 * Kind shell: the command is a line for /bin/sh -c.
 */
#include "exec/exec.h"

#include <string.h>

#include "exec/child.h"
#include "exec/result.h"

static void
run_shell(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	/* "--", so that a line that begins with a dash is not taken for options of the shell's own. */
	const char *const argv[] = {"/bin/sh", "-c", "--", run->command, NULL};

	if (run->command[strspn(run->command, " \t\r\n")] == '\0')
		result_fail(result, "command is empty; for kind shell it is a line for /bin/sh");
	else
		child_run(self, argv, false, run, host, result);
}

const struct pgrab_executor exec_shell = {
    .abi = PGRAB_EXECUTOR_ABI,
    .kind = "shell",
    .summary = "a line for /bin/sh -c; exit code 0 is success",
    .open = child_open,
    .close = child_close,
    .run = run_shell,
};
