/*
 * What pgrab top shows: read from the database by a thread of its own, so that keys are answered while a
 * connection hangs.
 */
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

/* At most `rows` of each list; names cut at `name_length` characters.  rates: those too. */
void top_data_read(struct top_data *d, struct db *db, bool json, int rows, int name_length, bool rates);
/* The same of several databases. */
void top_data_read_all(struct top_data *d, struct all *all, bool json, int rows, int name_length);
void top_data_fini(struct top_data *d); /* leaves it empty */

const char *top_field(const PGresult *r, const char *name); /* of the first row; "" for null */
int64_t top_number(const PGresult *r, const char *name);

/* The reader: asked once, it answers once.  It uses db, or all if that is given, until it is stopped. */
struct top_reader;
struct top_reader *top_reader_start(struct db *db, struct all *all, int rows, int name_length);
int top_reader_fd(const struct top_reader *r); /* readable: there is an answer to take */
void top_reader_ask(struct top_reader *r);     /* not again before the answer was taken */
void top_reader_take(struct top_reader *r, struct top_data *out);
/* false: it is busy with a server that does not answer, and still uses db: end the process by _exit. */
bool top_reader_stop(struct top_reader **r, int64_t patience_us);
