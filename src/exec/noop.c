/* Kind noop: succeeds at once.  For measuring what the scheduler itself costs, and as the root of a chain
 * that only groups its children.  INSTANT, so the node may finish whole batches of them without a worker. */
#include "exec/exec.h"

static void *
open_noop(const void *internal, char *err, size_t err_size)
{
	return (void *)&exec_noop; /* no state; any pointer but NULL will do, nobody writes through it */
}

static void
close_noop(void *self)
{
}

static void
run_noop(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	result->succeeded = true;
}

const struct pgrab_executor exec_noop = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "noop",
    .summary = "do nothing and succeed",
    .flags = PGRAB_EXECUTOR_INSTANT,
    .open = open_noop,
    .close = close_noop,
    .run = run_noop,
};
