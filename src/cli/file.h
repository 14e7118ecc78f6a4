/*
 * Files that commands read, and what pgrab apply does with their text.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/text.h"

/* The whole of a file; "-" is the standard input.  Returns CLI_DONE, or the code of what it has reported. */
int cli_read_file(struct cli *c, const char *path, struct buf *out);

/* Applies a JSON or SQL text in a transaction that stays open. */
CHECKED enum rc cli_apply(struct cli *c, const char *text, const char *source, bool prune);
/* Prints what it has changed, and ends the transaction. */
int cli_apply_end(struct cli *c, bool dry_run);
