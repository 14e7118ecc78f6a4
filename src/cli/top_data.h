/* What pgrab top shows: read from the database by a thread of its own, so that keys are answered while a
 * connection hangs. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <libpq-fe.h>

#include "base/rc.h"
#include "cli/all.h"
#include "db/pg.h"

/* Rows of the texts cli_top_*; with json one value each, as of report.h.  All NULL unless rc is RC_OK. */
struct top_data {
	enum rc rc;
	struct err err;
	PGresult *overview, *nodes, *running, *late;
	PGresult *rates; /* of the last hour; NULL: as they were */
	bool all;        /* of several databases: overview has a row for each, and there are no rates */
	char away[700];  /* which of them are away, and why */
};

/* One database, or several. */
struct top_source {
	struct db *db;
	struct all *all; /* instead of it, or NULL */
};

/* At most `rows` of each list; names cut at `name_length` characters.  rates: those too. */
void top_data_read(
    struct top_data *d, const struct top_source *from, bool json, int rows, int name_length, bool rates);
void top_data_fini(struct top_data *d); /* leaves it empty */

int64_t top_number(const PGresult *r, const char *name); /* of the first row */

/* The reader: asked once, it answers once.  It uses `from` until it is stopped. */
struct top_reader;
struct top_reader *top_reader_start(struct top_source from, int rows, int name_length);
int top_reader_fd(const struct top_reader *r); /* readable: there is an answer to take */
void top_reader_ask(struct top_reader *r);     /* not again before the answer was taken */
void top_reader_take(struct top_reader *r, struct top_data *out);
/* false: it is busy with a server that does not answer, and still uses `from`: end the process by _exit. */
bool top_reader_stop(struct top_reader **r, int64_t patience_us);
