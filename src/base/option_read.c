/* Where option values come from: environment, ini file, command line; and the help text. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ini.h>

#include "base/alloc.h"
#include "base/option.h"

/* libinih's INI_MAX_LINE is 200: a longer line would be cut silently, its rest taken for another key. */
#define INI_LINE_BYTES 198

enum rc
option_read_env(const struct option_key *table, void *settings, struct err *err)
{
	for (const struct option_key *k = table; k->name != NULL; k++) {
		char name[80];
		const char *value;
		int n = snprintf(name, sizeof name, "PGRAB_%s", k->name);

		for (int i = 0; i < n; i++)
			name[i] = (char)toupper((unsigned char)name[i]);
		value = getenv(name);
		if (value != NULL && *value != '\0') {
			enum rc rc = option_set(table, settings, k->name, value, name, err);

			if (rc != RC_OK)
				return rc;
		}
	}
	return RC_OK;
}

static enum rc
check_lines(const char *path, struct err *err)
{
	FILE *f = fopen(path, "re");
	size_t len = 0;
	int c, line = 1;
	enum rc rc = RC_OK;

	if (f == NULL)
		return err_set(err, RC_BAD, "could not read %s: %s", path, strerror(errno));
	while ((c = getc(f)) != EOF && rc == RC_OK) {
		if (c == '\0')
			rc = err_set(err, RC_BAD, "%s:%d: the file holds a NUL byte", path, line);
		else if (c == '\n')
			line++;
		len = c == '\n' ? 0 : len + 1;
		if (len > INI_LINE_BYTES)
			rc = err_set(err, RC_BAD,
			    "%s:%d: the line is longer than %d bytes; shorten it, or give this key as a flag "
			    "or PGRAB_ variable",
			    path, line, INI_LINE_BYTES);
	}
	if (rc == RC_OK && ferror(f))
		rc = err_set(err, RC_BAD, "could not read %s: %s", path, strerror(errno));
	fclose(f);
	return rc;
}

/* The line number of an ini key: libinih does not say it to its handler, so a line-counting reader feeds it.
 */
struct ini_file {
	const struct option_key *table;
	void *settings;
	const char *path;
	FILE *file;
	int line;
	struct err *err;
	enum rc rc;
};

static char *
read_line(char *str, int num, void *stream)
{
	struct ini_file *f = stream;

	f->line++;
	return fgets(str, num, f->file);
}

static int
take_key(void *user, const char *section, const char *name, const char *value)
{
	struct ini_file *f = user;
	char where[300];

	if (f->rc != RC_OK)
		return 0;
	snprintf(where, sizeof where, "%s:%d", f->path, f->line);
	if (section[0] != '\0' && strcmp(section, "pgrab") != 0)
		f->rc = err_set(f->err, RC_BAD,
		    "%s: unknown section [%.60s]; keys stand at the top or under [pgrab]", where, section);
	else
		f->rc = option_set(f->table, f->settings, name, value, where, f->err);
	return f->rc == RC_OK;
}

enum rc
option_read_file(const struct option_key *table, void *settings, const char *path, struct err *err)
{
	struct ini_file f = {.table = table, .settings = settings, .path = path, .err = err, .rc = RC_OK};
	enum rc rc = check_lines(path, err);
	int bad;

	if (rc != RC_OK)
		return rc;
	f.file = fopen(path, "re");
	if (f.file == NULL)
		return err_set(err, RC_BAD, "could not read %s: %s", path, strerror(errno));
	bad = ini_parse_stream(read_line, &f, take_key, &f);
	fclose(f.file);
	if (f.rc == RC_OK && bad != 0)
		return err_set(err, RC_BAD, "%s:%d: not `key = value`", path, bad);
	return f.rc;
}

struct argv {
	const struct option_key *table;
	void *settings;
	int argc, at;
	char **argv;
	bool *help_out;
	struct err *err;
};

static enum rc
take_value(struct argv *a, const struct option_key *k, const char *flag, const char *value)
{
	if (k->type == OPTION_FLAG)
		value = value == NULL ? "on" : value;
	else if (value == NULL) {
		if (a->at + 1 >= a->argc)
			return err_set(a->err, RC_BAD, "%s needs a value: %s %s", flag, flag,
			    k->metavar == NULL ? "VALUE" : k->metavar);
		value = a->argv[++a->at];
	}
	return option_set(a->table, a->settings, k->name, value, flag, a->err);
}

static enum rc
take_long(struct argv *a, const char *arg)
{
	char name[80], flag[84];
	const char *eq = strchr(arg, '=');
	size_t n = eq == NULL ? strlen(arg) : (size_t)(eq - arg);
	const struct option_key *k;

	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, arg);
	snprintf(flag, sizeof flag, "--%s", name);
	if (strcmp(name, "help") == 0) {
		*a->help_out = true;
		return RC_OK;
	}
	k = option_find(a->table, name);
	if (k == NULL) {
		const char *near = option_nearest(a->table, name);
		char hint[120] = "";

		if (near != NULL)
			snprintf(hint, sizeof hint, "; did you mean --%s?", near);
		for (char *p = hint; *p != '\0'; p++)
			*p = *p == '_' ? '-' : *p;
		return err_set(a->err, RC_BAD, "unknown option %s%s", flag, hint);
	}
	return take_value(a, k, flag, eq == NULL ? NULL : eq + 1);
}

static enum rc
take_short(struct argv *a, const char *arg)
{
	char flag[3] = {'-', arg[0], '\0'};

	if (arg[0] == 'h' && arg[1] == '\0') {
		*a->help_out = true;
		return RC_OK;
	}
	for (const struct option_key *k = a->table; k->name != NULL; k++) {
		if (k->letter != 0 && k->letter == arg[0])
			return take_value(a, k, flag, arg[1] != '\0' ? arg + 1 : NULL);
	}
	return err_set(a->err, RC_BAD, "unknown option %s", flag);
}

enum rc
option_read_argv(const struct option_key *table, void *settings, int argc, char **argv, const char **operands,
    int max_operands, int *n_operands_out, bool *help_out, struct err *err)
{
	struct argv a = {table, settings, argc, 1, argv, help_out, err};
	bool flags = true;
	enum rc rc = RC_OK;

	*n_operands_out = 0;
	for (; a.at < argc && rc == RC_OK; a.at++) {
		const char *arg = argv[a.at];

		if (flags && strcmp(arg, "--") == 0)
			flags = false;
		else if (flags && arg[0] == '-' && arg[1] == '-')
			rc = take_long(&a, arg + 2);
		else if (flags && arg[0] == '-' && arg[1] != '\0')
			rc = take_short(&a, arg + 1);
		else if (*n_operands_out == max_operands)
			rc = err_set(err, RC_BAD, "too many arguments at \"%.100s\"", arg);
		else
			operands[(*n_operands_out)++] = arg;
	}
	return rc;
}

void
option_print_help(const struct option_key *table)
{
	for (const struct option_key *k = table; k->name != NULL; k++) {
		char left[80];
		int n = k->letter != 0 ? snprintf(left, sizeof left, "-%c, --%s", k->letter, k->name)
				       : snprintf(left, sizeof left, "    --%s", k->name);

		for (int i = 6; i < n; i++)
			left[i] = left[i] == '_' ? '-' : left[i];
		if (k->type != OPTION_FLAG && k->metavar != NULL)
			snprintf(left + n, sizeof left - (size_t)n, " %s", k->metavar);
		printf("  %-34s %s", left, k->help);
		if (k->fallback != NULL && k->type != OPTION_FLAG)
			printf(" (default %s)", k->fallback);
		putchar('\n');
	}
}
