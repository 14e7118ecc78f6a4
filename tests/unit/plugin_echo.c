/*
 * An executor built outside of pgrab, against the installed header alone: kind `echo` prints its command.
 * With ECHO_ABI, ECHO_KIND and the like the same source also gives the broken plug-ins that the tests need.
 */
#include <string.h>

#include <pgrab/executor.h>

#ifndef ECHO_SIZE
#define ECHO_SIZE sizeof(struct pgrab_executor)
#endif
#ifndef ECHO_ABI
#define ECHO_ABI PGRAB_EXECUTOR_ABI
#endif
#ifndef ECHO_KIND
#define ECHO_KIND "echo"
#endif
#ifndef ECHO_RUN
#define ECHO_RUN run_echo
#endif
#ifndef ECHO_ENTRY
#define ECHO_ENTRY pgrab_executor_v2
#endif

const struct pgrab_executor *ECHO_ENTRY(void);

static void *
open_echo(const void *internal, char *err, size_t err_size)
{
	static const char self[] = "echo";

	return (void *)self;
}

static void
close_echo(void *self)
{
}

__attribute__((unused)) static void
run_echo(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	host->output(host->ctx, run->command, strlen(run->command));
	result->succeeded = true;
}

static const struct pgrab_executor executor = {
    .abi = ECHO_ABI,
    .size = ECHO_SIZE,
    .kind = ECHO_KIND,
    .summary = "prints its command",
    .open = open_echo,
    .close = close_echo,
    .run = ECHO_RUN,
};

const struct pgrab_executor *
ECHO_ENTRY(void)
{
	return &executor;
}
