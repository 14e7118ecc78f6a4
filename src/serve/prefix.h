/*
 * /db/NAME before a path says which database it is of.  It is taken off before a request is looked at, and
 * put before the paths of the answer when it is sent: what is in between knows nothing of it.
 */
#pragma once

#include "serve/call.h"

/* False: there is no such database, and c holds the answer. */
bool prefix_take(struct call *c);
void prefix_put(struct call *c);
