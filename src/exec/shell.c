/*
 * Kind exec: the command is a program, args.argv its arguments; no shell anywhere.
 *
 * Kind shell: the command is a text for /bin/sh -c.  The kernel takes no argument of more than 128 KiB.  A
 * longer text comes as a file, which the shell opens a second time; the descriptor it came as is closed
 * before the text begins.
 */
#include "exec/exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/child.h"
#include "exec/result.h"
#include "keeper/keeper.h"

#define ARGUMENT_BYTES (100 * 1024)
_Static_assert(KEEPER_SCRIPT_FD == 3, "it is spelled out below");

static void
run_shell(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	/* "--", so that the shell does not read a line that begins with a dash as its own options. */
	const char *const argv[] = {"/bin/sh", "-c", "--", run->command, NULL};
	const char *const file[] = {"/bin/sh", "/dev/fd/3", NULL};
	struct child_command cmd = {.argv = argv};
	AUTO_FREE char *script = NULL;

	if (run->command[strspn(run->command, " \t\r\n")] == '\0') {
		result_fail(result, "command is empty; for kind shell it is a line for /bin/sh");
	} else {
		if (strlen(run->command) > ARGUMENT_BYTES) {
			script = xasprintf("exec 3<&-; %s", run->command);
			cmd = (struct child_command){.argv = file, .script = script};
		}
		child_run(self, &cmd, run, host, result);
	}
}

const struct pgrab_executor exec_shell = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "shell",
    .summary = "run a line with /bin/sh -c; exit code 0 is success",
    .open = child_open,
    .close = child_close,
    .run = run_shell,
};

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
