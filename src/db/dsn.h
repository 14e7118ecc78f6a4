/* Connection strings hold passwords, and libpq repeats pieces of what it does not understand. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Does it hold a password?  A malformed one counts as if it did. */
bool dsn_has_password(const char *dsn);

/* Puts *** in place of whatever may be a password of this dsn, or a piece of one, in
 * libpq's message about it. */
void dsn_hide(const char *dsn, char *text, size_t size);

/* base, but what `over` says takes the place of the same: for the caller to free.  NULL: one of them is no
 * connection string. */
char *dsn_over(const char *base, const char *over);

/* Does it say who logs in, or how? */
bool dsn_has_login(const char *dsn);
