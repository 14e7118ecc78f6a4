/* A node: `pgrab run`. */
#pragma once

#include "node/settings/settings.h"

struct node;
struct workers;

/* Runs until TERM, INT or a fatal error.  Returns the exit code: 0 stopped in good order, 1 failed (the
 * reason is logged). */
int node_main(const struct settings *set);

/* Its steps.  Before the threads, and before there are more workers: enough descriptors for all that a node
 * with so many may hold at once.  Raises the soft limit if it is too low.  RC_BAD: the hard limit does not
 * allow that; err says how many are needed.  (A thread that gets no descriptor for its connection keeps what
 * it has until it does: a node would take tasks and never record their ends.) */
CHECKED enum rc descriptors_provide(const struct node *n, int64_t workers, struct err *err);

/* Then the database, its schema, our kinds in it, and what its durability allows.  Waits for the server,
 * saying so once.  A fault of the configuration (a wrong password, no such database, no rights) is not waited
 * for: the person who starts a node is there to mend it.  RC_CLOSED: TERM came. */
CHECKED enum rc node_meet_database(struct node *n, struct err *err);

/* HUP: the settings are read again.  log_level, workers, weight and labels change at once; the log names what
 * else differs and needs a restart.  A file with a mistake changes nothing.  Main thread.  Afterwards wake
 * those who read what may have changed: loaders and heartbeat. */
void reload(struct node *n, struct workers *workers);
