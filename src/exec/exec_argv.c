/* Kind exec: a program and its arguments, no shell anywhere. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "exec/child.h"

static void
exec_run(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	const char **argv = xcalloc(run->n_args + 2, sizeof *argv);
	size_t n = 0;

	argv[n++] = run->command;
	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "argv") == 0)
			argv[n++] = run->args[i].value;
	}
	child_run(self, run, host, argv, result);
	free(argv);
}

const struct pgrab_executor exec_exec = {
    .abi = PGRAB_EXECUTOR_ABI,
    .kind = "exec",
    .summary = "run a program, no shell",
    .open = child_open,
    .run = exec_run,
};
