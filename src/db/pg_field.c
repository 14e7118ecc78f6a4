/* Fields of a result; see pg.h. */
#include "db/pg.h"

#include <stdlib.h>

void
db_clear(PGresult **res)
{
	PQclear(*res);
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
