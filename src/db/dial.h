/*
 * Internal to db: making a connection, within a deadline that names of servers and silent hosts keep as well.
 */
#ifndef PGRAB_DB_DIAL_H
#define PGRAB_DB_DIAL_H

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/rc.h"

/*
 * Tries each host of the DSN (or of libpq's environment) with a share of the time, so that one that is
 * silent does not keep the next from being tried.  primary: a server that only reads is passed by.
 * RC_OK: *out is the caller's.  RC_AGAIN: not now.  RC_BAD: refused until a person does something;
 * the text says what.
 */
CHECKED enum rc dial_server(
    const char *dsn, const char *app, int64_t timeout_us, bool primary, PGconn **out, struct err *err);

/* Waits for the socket until until_us; false when that passed, or when stop_fd (if >= 0) became
 * readable, which sets *stopped_out. */
bool dial_wait_socket(PGconn *conn, bool for_write, int64_t until_us, int stop_fd, bool *stopped_out);

/* One line of a message: blanks folded, without libpq's guess at the reason. */
void dial_one_line(char *out, size_t size, const char *text);

#endif
