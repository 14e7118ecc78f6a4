/* Tokens: rows of pgrab.token, looked up with this program's own role. */
#pragma once

#include <stdbool.h>

#include "serve/call.h"

/* Turns c->token into c->role.  False: it is not valid, or its role has no section; c holds the answer. */
bool token_settle(struct call *c, struct db *own);
