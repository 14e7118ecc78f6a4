/* Internal to db: makes a connection within a deadline that holds for name lookups and silent hosts too. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/rc.h"

struct life_target;

/* Each host of the DSN (or of libpq's environment) gets a share of the time, so that a silent one does not
 * use up the time of the next.  primary: read-only servers are passed over.  RC_OK: *out is the caller's.
 * RC_AGAIN: not now.  RC_BAD: refused until a person does something; the text says what.  target: may be
 * NULL; what came of a try to reach it is noted there. */
CHECKED enum rc dial_server(const char *dsn, const char *app, int64_t timeout_us, bool primary,
    struct life_target *target, PGconn **out, struct err *err);

/* Waits for the socket until until_us; false when that passed, or when stop_fd (if >= 0) is readable,
 * whatever the socket is, which sets *stopped_out. */
bool dial_wait_socket(PGconn *conn, bool for_write, int64_t until_us, int stop_fd, bool *stopped_out);

/* One line of a message: blanks folded, without libpq's guess at the reason. */
void dial_one_line(char *out, size_t size, const char *text);
