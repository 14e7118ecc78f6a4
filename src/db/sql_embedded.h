/* Internal to db: the table that embed.py writes and sql.c reads. */
#pragma once

#include "db/sql.h"

extern const struct sql_file sql_queries[];
