/*
 * Connection strings hold passwords, and libpq repeats pieces of what it does not understand.
 */
#ifndef PGRAB_DB_DSN_H
#define PGRAB_DB_DSN_H

#include <stdbool.h>
#include <stddef.h>

/* Does it hold a password, as far as anybody can tell?  A malformed one counts as if it did. */
bool dsn_has_password(const char *dsn);

/* Takes what may be a password of this dsn, or a piece of one, out of libpq's words about it: ***
 * is put in its place. */
void dsn_hide(const char *dsn, char *text, size_t size);

#endif
