/* A task's args as its node gets them: the JSON object of the row, as the database prints it, and after it
 * what the parents of a link have printed, as a list of pairs.  Either may be missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/netstr.h"
#include "core/run.h"

/* Takes them apart as struct pgrab_arg says.  Besides: a null among the elements of an array has the key
 * "params:null" (or whatever the member is called), and in an object a reference to a secret or a file, such
 * as {"secret": "name"}, has the key "env:secret" or "env:file" and the value "VARIABLE=name".  RC_BAD:
 * malformed.  pairs_fini is safe afterwards. */
CHECKED enum rc args_read(const char *text, size_t len, struct pairs *out, struct err *err);

/* The args of a run that has started, from what the database has sent (args_text, which is freed).  What
 * cannot be read is the reason why it is not executed.  whole: for one who takes the object as it is written;
 * it becomes the one pair "args". */
void args_take(struct run_task *t, bool whole);
