/* pgrab signal, resolve: what a task waits for, from a person. */
#include "cli/commands.h"

static int
run_signal(struct cli *c)
{
	AUTO_ARRAY struct pgarray task = {0};
	const char *params[3] = {NULL, c->operands[1], c->operands[2]};

	pgarray_text(&task, c->operands[0]);
	params[0] = pgarray_str(&task);
	return cli_list(c, "cli_signal", 3, params, "Nothing to do: it has had this signal already.");
}

const struct command cmd_signal = {
    .name = "signal",
    .group = GROUP_DO,
    .usage = "TASK SIGNAL [JSON] [OPTIONS]",
    .summary = "send a task the signal that it waits for",
    .details =
	"The function pgrab.signal(). A task with wait_for starts only after this signal, in each of its\n"
	"fires; the first of a name counts. Its run gets what is sent with it.\n"
	"  pgrab signal release approved '{\"by\": \"ann\"}'",
    CLI_ONLY_COMMON,
    CLI_OPERANDS(2, 3),
    .exec = run_signal,
};

const struct command cmd_resolve = {
    .name = "resolve",
    .group = GROUP_DO,
    .usage = "TASK OUTCOME [TEXT] [OPTIONS]",
    .summary = "answer the request of a task whose receiver will not",
    .details =
	"The function pgrab.resolve(), without a token. A task of kind http with args.await waits until its\n"
	"receiver has called back; this ends its run instead. OUTCOME is succeeded, and TEXT its output, or\n"
	"failed, and TEXT says why; then it is tried again like any failure. pgrab cancel gives it up.\n"
	"  pgrab resolve thumbnails succeeded '{\"thumbnails\": 21}'\n"
	"  pgrab resolve thumbnails failed 'out of paper'",
    CLI_ONLY_COMMON,
    CLI_OPERANDS(2, 3),
    .sql = "cli_resolve",
    .nothing = "",
};
