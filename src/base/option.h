/* One table of keys gives the flag, the ini key, the environment variable, the default, the range and the
 * help.  A key `dead_after` is --dead-after on the command line, dead_after in the file, PGRAB_DEAD_AFTER in
 * the environment.  Precedence: flag, file, environment, default (so the readers below are called in the
 * opposite order: environment, file, flags). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rc.h"

enum option_type {
	OPTION_TEXT,     /* char *, owned by the settings struct */
	OPTION_INT,      /* int64_t, min..max */
	OPTION_REAL,     /* double, min..max */
	OPTION_DURATION, /* int64_t in microseconds; "200ms" "5s" "10m" "1h" "7d"; min..max in microseconds */
	OPTION_ENUM,     /* int, index into choices */
	OPTION_FLAG,     /* bool; as a flag it takes no value; in file and environment: on/off, true/false,
			    yes/no, 1/0 */
};

struct option_key {
	const char *name; /* with underscores */
	char letter;      /* short flag, or 0 */
	enum option_type type;
	size_t offset;       /* of the field in the settings struct */
	const char *metavar; /* for help: "SECONDS" */
	const char *help;    /* one line */
	/* what a row leaves out is 0 */
	const char *fallback;       /* default, as text; NULL: none (TEXT stays NULL) */
	double min, max;            /* INT, REAL, DURATION (microseconds); both 0: no bound */
	const char *const *choices; /* ENUM: ended by NULL */
	bool secret;                /* value is never printed */
	size_t given;               /* FLAG: of a bool that says that it was given, on or off; 0: none */
};

/* A table ends with a row whose name is NULL. */

/* A section that a file may hold any number of times, each with another name: [word name]. */
struct option_section {
	const char *word;               /* NULL ends the list */
	const struct option_key *table; /* its keys */
	size_t list, count; /* offsets in the settings: of a pointer to an array, which grows, and a size_t */
	size_t size;        /* of an element, which begins with its name, a char * */
	size_t most;        /* how many a file may hold */
	size_t name_most;   /* bytes of a name */
	bool plain;         /* a name is of letters, digits, _ and - only */
	const char *about;  /* for the manual, in sentences; NULL: left out of it */
};

/* Sets every field to its default.  Aborts on a bad default: that is our bug. */
void option_defaults(const struct option_key *table, void *settings);
void option_free(const struct option_key *table, void *settings); /* frees TEXT fields */
/* Is the value of this key the same in both? */
bool option_same(const struct option_key *key, const void *a, const void *b);

/* where ("--poll", "pgrab.conf:12", "PGRAB_POLL") is named in the error.  RC_BAD names key,
 * value and what would be right. */
CHECKED enum rc option_set(const struct option_key *table, void *settings, const char *name,
    const char *value, const char *where, struct err *err);

/* Those that option_read_file() has added. */
void option_free_sections(const struct option_section *sections, void *settings);
bool option_same_sections(const struct option_section *sections, const void *a, const void *b);

/* PGRAB_* variables of the environment that are in the table.  Others are ignored. */
CHECKED enum rc option_read_env(const struct option_key *table, void *settings, struct err *err);

/* An ini file.  Keys before the first section and under [pgrab] are the table's; sections may be NULL.
 * An unknown key is refused with file:line and the nearest key; any other section and a line of more
 * than 64 KiB are refused too. */
CHECKED enum rc option_read_file(const struct option_key *table, const struct option_section *sections,
    void *settings, const char *path, struct err *err);

/*
 * Flags of argv[1..argc): --name value, --name=value, -x value, --flag.  Underscores and dashes are the same.
 * Everything else goes, in order, to operands (at most max_operands, else RC_BAD); "--" ends flags.
 * *help_out is set on --help or -h.
 */
CHECKED enum rc option_read_argv(const struct option_key *table, void *settings, int argc, char **argv,
    const char **operands, int max_operands, int *n_operands_out, bool *help_out, struct err *err);

/* Blanks out the values of secret keys in argv, which anybody on the machine can read; what names a database
 * without a password stays.  Call after they have been read: the settings are copies. */
void option_hide_secrets(const struct option_key *table, int argc, char **argv);

/* All of a program's settings, at their defaults: environment, then by read_file() the file that the key
 * `config` names, then flags.  program: "pgrab run", which takes no operands. */
CHECKED enum rc option_read(const struct option_key *table, const char *program, void *settings, size_t size,
    enum rc (*read_file)(void *settings, const char *file, struct err *err), int argc, char **argv,
    bool *help_out, struct err *err);

/* Help lines for --help: "  --poll DURATION   longest wait ... (default 1s)".  Written to stdout, wrapped to
 * 100 columns. */
void option_print_help(const struct option_key *table);

/* For other forms of the same help.  The word for the value ("TIME"; NULL: it takes none), and
 * what a value may be ("a time such as 200ms, 5s, 10m, 1h or 7d, from 1s to 2h"). */
const char *option_metavar(const struct option_key *k);
void option_describe(const struct option_key *k, char *out, size_t size);

/* The table row with this name (dashes allowed), or NULL; and the nearest name for
 * "did you mean", or NULL. */
const struct option_key *option_find(const struct option_key *table, const char *name);
const char *option_nearest(const struct option_key *table, const char *name);

/* "200ms" to microseconds.  A bare number is refused except 0.  Returns false on anything else. */
bool duration_parse(const char *s, int64_t *us_out);
/* The shortest exact form: "1500ms", "5s", "1h".  buf >= 32. */
const char *duration_format(int64_t us, char *buf, size_t size);
