/* Kind exec: the command is a program, args.argv its arguments; no shell anywhere. */
#include "exec/exec.h"

#include "exec/child.h"
#include "exec/result.h"

static void
run_exec(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	const char *const argv[] = {run->command, NULL};
	const struct child_command cmd = {.argv = argv, .takes_argv = true};

	if (run->command[0] == '\0')
		result_fail(result, "command is empty; for kind exec it is the path of a program");
	else
		child_run(self, &cmd, run, host, result);
}

const struct pgrab_executor exec_exec = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "exec",
    .summary = "run a program with arguments, without a shell; exit code 0 is success",
    .open = child_open,
    .close = child_close,
    .run = run_exec,
};
