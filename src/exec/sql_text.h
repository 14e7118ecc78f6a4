/*
 * The text of a sql task, and what there is to say about it: its statements, its rows, its errors.
 */
#ifndef PGRAB_EXEC_SQL_TEXT_H
#define PGRAB_EXEC_SQL_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"
#include "db/pg.h"
#include "pgrab/executor.h"

struct sql_text {
	char **statement; /* owned */
	size_t n;
	const char **param; /* borrowed from the run; NULL: a null */
	size_t n_params;
	bool transaction; /* false: args.transaction says so */
};

/* False: the text is refused, result->error says why. */
bool sql_text_take(const struct pgrab_run *run, struct sql_text *out, struct pgrab_result *result);
void sql_text_fini(struct sql_text *t);

/* May the server be given it as it is, because it can neither end the transaction nor COPY?  Its first word
 * decides; a statement with any other is executed by a function on the server. */
bool sql_is_plain(const char *statement);

/* Why it failed.  res: the server's answer, or NULL; number: of the statement that failed, from 1, or 0. */
void sql_text_why(const struct sql_text *t, size_t number, const PGresult *res, const struct err *err,
    struct pgrab_result *result);

#endif
