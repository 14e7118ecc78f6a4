/* A task's args as its node gets them: the JSON object of the row, as the database prints it, and after it
 * what the parents of a link have printed, as a list of pairs.  Either may be missing. */
#pragma once

#include <stddef.h>

#include "base/netstr.h"

/* Takes them apart as struct pgrab_arg says.  Besides: a null among the elements of an array has the key
 * "params:null" (or whatever the member is called), and in an object a reference to a secret or a file, such
 * as {"secret": "name"}, has the key "env:secret" or "env:file" and the value "VARIABLE=name".  RC_BAD:
 * malformed.  pairs_fini is safe afterwards. */
CHECKED enum rc args_read(const char *text, size_t len, struct pairs *out, struct err *err);
