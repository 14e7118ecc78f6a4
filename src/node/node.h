/*
 * A node: `pgrab run`.
 */
#pragma once

#include "node/settings/settings.h"

/* Runs until TERM, INT or a fatal error.  Returns the exit code: 0 stopped in good order, 1 failed (the
 * reason is logged). */
int node_main(const struct settings *set);
