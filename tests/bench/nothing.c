/*
 * nothing: succeeds at once, whatever its args (noop takes none).  What a scheduler does with the args of a
 * task, without any work.
 */
#include <pgrab/executor.h>

static void *
nothing_open(const void *internal, char *err, size_t err_size)
{
	static char self;

	return &self;
}

static void
nothing_close(void *self)
{
}

static void
nothing_run(
    void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	result->succeeded = true;
}

static const struct pgrab_executor nothing = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "nothing",
    .summary = "do nothing, with args",
    .flags = PGRAB_EXECUTOR_INSTANT,
    .open = nothing_open,
    .close = nothing_close,
    .run = nothing_run,
};

const struct pgrab_executor *pgrab_executor_v2(void);

const struct pgrab_executor *
pgrab_executor_v2(void)
{
	return &nothing;
}
