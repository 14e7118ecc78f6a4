/* Fields of a result; see pg.h. */
#include "db/pg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void
db_clear(PGresult **res)
{
	PQclear(*res);
}

const char *
db_number(char *buf, int64_t v)
{
	snprintf(buf, NUMBER_MAX, "%" PRId64, v);
	return buf;
}

int64_t
db_int64(const PGresult *r, int row, int col)
{
	return strtoll(PQgetvalue(r, row, col), NULL, 10);
}

double
db_double(const PGresult *r, int row, int col)
{
	return strtod(PQgetvalue(r, row, col), NULL);
}

bool
db_bool(const PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col)[0] == 't';
}

const char *
db_text(const PGresult *r, int row, int col)
{
	return PQgetvalue(r, row, col);
}

const char *
db_field(const PGresult *r, int row, const char *column)
{
	return db_text(r, row, PQfnumber(r, column));
}

double
db_field_double(const PGresult *r, int row, const char *column)
{
	return db_double(r, row, PQfnumber(r, column));
}

bool
db_field_bool(const PGresult *r, int row, const char *column)
{
	return db_bool(r, row, PQfnumber(r, column));
}

void
db_set(PGresult *r, int row, int col, const char *text)
{
	if (!PQsetvalue(r, row, col, (char *)text, text == NULL ? -1 : (int)strlen(text)))
		abort(); /* no memory: as xmalloc does */
}
