/* The last check of a started run, by the thread that is about to execute it. */
#pragma once

#include <stdbool.h>

#include "node/context.h"

/* Begins it, now.  What its args name in files is read and filled in.  known: this node has the kind.
 * True: it counts in node->running until the caller takes it out.  False: it must not be executed, and has
 * its outcome, its error and its end, or others may have it by now.  May read small files; never waits for
 * the database. */
bool run_begins(struct node *n, struct run *r, bool known);
