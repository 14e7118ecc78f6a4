/* What store_claim.c and store_start.c share: rows of claim.sql, held.sql, start.sql and limit_start.sql. */
#pragma once

#include <libpq-fe.h>

#include "core/run.h"

/* Their columns. */
enum {
	ID,
	VERSION,
	DUE,
	BAND,
	STARTED,
	ATTEMPT,
	MAX_ATTEMPTS,
	KIND,
	ONCE,
	NAME,
	COMMAND,
	ARGS,
	TIMEOUT,
	STALL,
	SPARE,
	FIRE,
	LIMITED,
	OWNER,
	PROOF,
	TRACEPARENT,
	KEY
};

/* The definition, as it was when the run was started. */
void store_fill_definition(struct run *r, const PGresult *res, int row);
