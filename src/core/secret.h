/* Args that name a secret in place of a value: {"env": {"TOKEN": {"secret": "api"}}} comes from the database
 * under the key `env:secret` as "TOKEN=api", {"file": "api.key"} under `env:file`.  Each is filled in once,
 * before the run is executed, and hidden in whatever is recorded of the run. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/run.h"

enum secret_from {
	SECRET_NONE,  /* a plain value */
	SECRET_TABLE, /* a name in pgrab.secret */
	SECRET_FILE,  /* a path below the folder of its owner */
};

#define SECRET_MAX  (64 * 1024)
#define SECRET_HIDE 8 /* hiding shorter ones would hide ordinary words */

/* What args[i] of the run names, *name_out borrowed. */
enum secret_from secret_reference(const struct run *r, size_t i, const char **name_out);

/* Does any of its args still name a row of the table? */
bool secret_wanted(const struct run *r);

/* Gives args[i] its value, as if it had been a plain one.  The run owns its copy. */
void secret_fill(struct run *r, size_t i, const char *value);

/* Puts a star for each byte of each filled-in value of SECRET_HIDE bytes or more, of each line of one that
 * has several, and of what is left of one where the text was cut: so no position in the text changes.
 * goes_on: the end is a cut, too.  text may be NULL.  Linear in the lengths of both. */
void secret_hide(const struct run *r, char *text, bool goes_on);

/* Wipes and frees. */
void secret_fini(struct run *r);
