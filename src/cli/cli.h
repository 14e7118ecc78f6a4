/* The command line: one const row per command, one file per row.  Everything here runs in the main thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/option.h"
#include "base/rc.h"
#include "db/pg.h"

enum cli_exit { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_ABSENT = 3 };

/* What every command that talks to a database takes; the first member of its options struct. */
struct cli_common {
	char *dsn;
	char *schema;
	bool json, utc;
};

#define CLI_DSN_ROW                                                                             \
	{"dsn", 'd', OPTION_TEXT, offsetof(struct cli_common, dsn), "DSN",                      \
	    "database to connect to, a URI or key=value; default: PGRAB_DSN, else libpq's own " \
	    "environment (PGHOST, ...)",                                                        \
	    .secret = true},                                                                    \
	    CLI_SCHEMA_ROW
#define CLI_SCHEMA_ROW                                                                     \
	{                                                                                  \
		"schema", 0, OPTION_TEXT, offsetof(struct cli_common, schema), "NAME",     \
		    "schema of the database to work in; default: PGRAB_SCHEMA, else pgrab" \
	}
#define CLI_JSON_ROW                                                                     \
	{"json", 0, OPTION_FLAG, offsetof(struct cli_common, json), NULL, "print JSON"}, \
	{                                                                                \
		"utc", 0, OPTION_FLAG, offsetof(struct cli_common, utc), NULL,           \
		    "times in UTC, not in your time zone (TZ); implied by --json"        \
	}
#define CLI_COMMON_ROWS CLI_DSN_ROW, CLI_JSON_ROW
/* Of the command's own struct options: a text, or so many rows of a list. */
#define CLI_TEXT_ROW(flag, letter, metavar, help)                                         \
	{                                                                                 \
#flag, letter, OPTION_TEXT, offsetof(struct options, flag), metavar, help \
	}
#define CLI_FLAG_ROW(flag, letter, help)                                               \
	{                                                                              \
#flag, letter, OPTION_FLAG, offsetof(struct options, flag), NULL, help \
	}
#define CLI_SINCE_ROW \
	CLI_TEXT_ROW( \
	    since, 0, "TIME", "at or after this: 2h (ago), or a time in any form that PostgreSQL accepts")
#define CLI_LIMIT_ROW                                                                                     \
	{                                                                                                 \
		"limit", 'l', OPTION_INT, offsetof(struct options, limit), "N", "show at most this many", \
		    "50", 1, 1e6                                                                          \
	}
#define CLI_LAST_ROW         \
	{                    \
		.name = NULL \
	}

struct cli {
	const struct command *cmd;
	const void *options; /* the command's own struct */
	const struct cli_common *common;
	const char **operands; /* NULL where fewer than cmd->max_operands are given */
	int n_operands;
	const char **repeated; /* values of the flag cmd->repeat, in order */
	int n_repeated;
	struct db *db; /* made on first use, closed by the dispatcher */
	struct err err;
};

enum command_group {
	GROUP_SETUP,
	GROUP_LOOK,
	GROUP_DO,
	GROUP_NODES,
	GROUP_OTHER,
	GROUP__COUNT,
	GROUP_HIDDEN
};

struct command {
	const char *name;
	const char *alias; /* or NULL */
	enum command_group group;
	const char *usage;   /* what comes after the name */
	const char *summary; /* one line, no full stop */
	const char *details; /* for its own help, or NULL */
	const struct option_key *options;
	size_t options_size;
	int min_operands, max_operands;
	bool in_utc;        /* its times are UTC, whatever the caller's zone */
	const char *repeat; /* a flag that may be given several times, or NULL; its row in options is for the
			       help */
	const char *also;   /* a line below its list on a terminal, or NULL */
	int (*exec)(struct cli *c);
	int (*exec_argv)(int argc, char **argv); /* instead: reads its own options */
	const char *sql, *nothing; /* instead: cli_list() of these, the operands are the parameters */
};

/* For a command with options of its own, and for one that takes only what all take. */
#define CLI_OPTIONS(keys) .options = keys, .options_size = sizeof(struct options)
extern const struct option_key cli_common_keys[];
#define CLI_ONLY_COMMON .options = cli_common_keys, .options_size = sizeof(struct cli_common)

/* How many words it takes. */
#define CLI_OPERANDS(min, max) .min_operands = min, .max_operands = max

/* All commands, in the order of the help; ended by NULL. */
#define CLI_COMMANDS_MAX 100

extern const struct command *const cli_commands[];

/* What main() does when it is not the keeper. */
int cli_main(int argc, char **argv);

const char *cli_group_title(enum command_group group);
const struct command *cli_find(const char *name); /* by name or alias, or NULL */
void cli_help(FILE *to);
void cli_help_command(const struct command *cmd);
/* Reports that there is no such command, and which is nearest.  Returns CLI_USAGE. */
int cli_unknown(const char *name);

/* The connection, not yet made.  deadline_us: for each statement. */
struct db *cli_db(struct cli *c, int64_t deadline_us);
#define CLI_DEADLINE_US INT64_C(60000000)

/* Reports c->err as "pgrab <command>: TEXT" with what to do about it.  Returns CLI_FAILED, or CLI_ABSENT when
 * the server said that there is no such task.  `doing`: what was being done, for an error of the server;
 * NULL: the text says it. */
int cli_fail(struct cli *c, enum rc rc, const char *doing);
/* Reports wrong usage.  Returns CLI_USAGE. */
int cli_usage(const struct command *cmd, const char *text);
/* Reports what went wrong here, not in the database; or that there is no such thing.  Returns the code. */
int cli_say(struct cli *c, enum cli_exit code, const char *fmt, ...) PRINTF_LIKE(3, 4);
#define cli_failed(c, ...) cli_say(c, CLI_FAILED, __VA_ARGS__)
#define cli_absent(c, ...) cli_say(c, CLI_ABSENT, __VA_ARGS__)

/* The id of the task that an operand names by id, key or name.  Returns CLI_DONE, or the
 * code of what it has reported. */
#define CLI_ID_SIZE 24
int cli_task_id(struct cli *c, const char *text, char id[CLI_ID_SIZE]);

/* The rows of a text of src/db/sql, for the caller to PQclear.  Returns CLI_DONE, or the code of what it has
 * reported. */
int cli_rows(struct cli *c, const char *sql, int n_params, const char *const *params, PGresult **out);

/* Prints the row of such a text as a JSON object. */
int cli_object(struct cli *c, const char *sql, int n_params, const char *const *params);

/* The same for a text that finds or deletes the `what` of this name, its parameter: when it has no row, that
 * there is none is reported. */
int cli_found(struct cli *c, const char *sql, const char *what, const char *name);

/* Runs a text of src/db/sql and prints its rows: a table, or with --json an array.  `nothing` is printed
 * instead of an empty table. */
int cli_list(struct cli *c, const char *sql, int n_params, const char *const *params, const char *nothing);

/* The same for a table whose lines end with what to do, so they are not cut.  *code_out: CLI_DONE, or the
 * code of what was reported.  Returns the rows, for the caller to PQclear; NULL with --json. */
PGresult *
cli_list_whole(struct cli *c, const char *sql, int n_params, const char *const *params, int *code_out);

/* The same for a list that may be long: the text's last parameter is how many rows it may give.  If there are
 * more, the last line says so. */
int cli_list_some(struct cli *c, const char *sql, int n_params, const char *const *params, int64_t limit,
    const char *nothing);

/* A point in time given as an option, for pgrab_tool.moment(): "2h" (ago), or a time. */
struct cli_time {
	char text[64];
};
const char *cli_time(const char *given, struct cli_time *t); /* NULL for NULL */

/* All values of --arg as a JSON object, which the caller owns; untouched when there are none. */
CHECKED enum rc cli_args(struct cli *c, char **json_out);

/* Has the reader of our output gone?  Then there is nobody to write for. */
bool cli_reader_left(void);

/* The whole of a file; "-" is the standard input.  Returns CLI_DONE, or the code of what it has reported. */
int cli_read_file(struct cli *c, const char *path, struct buf *out);

/* Applies a JSON or SQL text in a transaction that stays open; prints what it has changed, and ends it. */
CHECKED enum rc cli_apply(struct cli *c, const char *text, const char *source, bool prune);
int cli_apply_end(struct cli *c, bool dry_run);

/* Waits until the fire after so many (NULL: those at the first look) of a task is over, and says how it
 * ended; CLI_FAILED: not well. */
int cli_wait_fire(struct cli *c, const char *id, const char *fires, int64_t timeout_us);

/* Waits until something in the database is over.  CLI_DONE: it is, or there is no row.  Otherwise the code of
 * what it has reported. */
struct cli_wait {
	const char *sql; /* a text of src/db/sql; its column `over` says whether it is */
	int n_params;
	const char *params[2];
	int64_t timeout_us;
	void (*seen)(struct cli_wait *w); /* after each look that found it not over; or NULL */
	PGresult *result;                 /* of the last look; the caller's */
};
int cli_wait(struct cli *c, struct cli_wait *w);
