/*
 * Waits for something in the database to be over.
 */
#pragma once

#include <stdint.h>

#include "cli/cli.h"

struct cli_wait {
	const char *sql; /* a text of src/db/sql; its column `over` says whether it is */
	int n_params;
	const char *params[2];
	int64_t timeout_us;
	void (*seen)(struct cli_wait *w); /* after each look that found it not over; or NULL */
	PGresult *result;                 /* of the last look; the caller's */
};

/* CLI_DONE: it is over, or there is no row.  Otherwise the error has been reported. */
int cli_wait(struct cli *c, struct cli_wait *w);
