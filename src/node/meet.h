/*
 * Before the threads: the database, its schema, our kinds in it, and what its durability allows.
 */
#pragma once

#include "base/rc.h"

struct node;

/* Waits for the server, saying so once.  A fault of the configuration (a wrong password, no such database,
 * no rights) is not waited for: the person who starts a node is there to mend it.  RC_CLOSED: TERM came. */
CHECKED enum rc node_meet_database(struct node *n, struct err *err);
