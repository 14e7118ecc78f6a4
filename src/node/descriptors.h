/*
 * Before the threads: enough descriptors for all that a node with these settings may hold at once.
 */
#pragma once

#include "base/rc.h"

struct node;

/* Raises the soft limit if it is too low.  RC_BAD: the hard limit does not allow that; err says how many are
 * needed.  (A thread that gets no descriptor for its connection keeps what it has until it does: a node would
 * take tasks and never record their ends.) */
CHECKED enum rc descriptors_provide(const struct node *n, struct err *err);
