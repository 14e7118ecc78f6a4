/*
 * --all: every database of the file of pgrab serve, asked at the same time.  One that is away holds up the
 * others no longer than a few seconds.
 */
#pragma once

#include "base/buf.h"
#include "cli/cli.h"

/* Of the command's own struct options. */
#define CLI_ALL_ROWS                                                                                         \
	{"all", 0, OPTION_FLAG, offsetof(struct options, all), NULL,                                         \
	    "of every database in the file of pgrab serve"},                                                 \
	{                                                                                                    \
		"config", 0, OPTION_TEXT, offsetof(struct options, config), "FILE", "with --all: that file", \
		    "/etc/pgrab/serve.conf"                                                                  \
	}

struct all;

/* NULL: c->err says what is wrong with the file. */
struct all *all_open(struct cli *c, const char *file);
void all_close(struct all **a);

/* What a text of src/db/sql says in each of them, with the name of the database in a first column, for the
 * caller to PQclear.  NULL: none of them answers.  json: one column, an object for each row. */
PGresult *all_ask(struct all *a, const char *sql, int n_params, const char *const *params, bool json);

/* Its rows as a JSON array, "[]" for NULL. */
void all_array(struct buf *out, const PGresult *r);

/* What is away, "etl: could not connect ...; "; "": nothing is. */
const char *all_away(const struct all *a);

/* Asks and prints, as cli_list(). */
int all_list(struct cli *c, const char *file, const char *sql, int n_params, const char *const *params,
    const char *nothing);
