/* What is known of each database: its row of pgrab.overview, or why there is none.  Each is told by the
 * threads of its own answerers, so a look at all of them waits for none. */
#pragma once

#include "serve/call.h"

#define FLEET_EVERY_US (5 * US_PER_S)

struct fleet;

struct fleet *fleet_create(size_t databases);
void fleet_destroy(struct fleet **f);

/* Takes note.  r: the row, which stays the caller's; NULL: why says why there is none.  Any thread. */
void fleet_note(struct fleet *f, size_t database, const PGresult *r, const char *why);

/* All that is known, for the caller to PQclear: columns database, state, seconds (since it was told), those
 * of pgrab.overview, error, and path. */
PGresult *fleet_rows(struct fleet *f, const struct serve_settings *set);
