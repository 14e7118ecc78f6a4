/*
 * A node: `pgrab run`.
 */
#ifndef PGRAB_NODE_NODE_H
#define PGRAB_NODE_NODE_H

#include "node/settings/settings.h"

/* Runs until TERM, INT or a fatal error.  Returns the exit code: 0 stopped in good order, 1 failed (the
 * reason is logged). */
int node_main(const struct settings *set);

#endif
