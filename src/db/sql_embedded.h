/* Internal to db: the table that embed.py writes and sql.c reads. */
#ifndef PGRAB_DB_SQL_EMBEDDED_H
#define PGRAB_DB_SQL_EMBEDDED_H

#include "db/sql.h"

extern const struct sql_file sql_queries[];

#endif
