/* Values from the environment and from the command line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"

/* PGRAB_DEAD_AFTER of dead_after.  By hand: toupper(3) depends on the locale. */
static void
env_name(const char *key, char *out, size_t size)
{
	snprintf(out, size, "PGRAB_%s", key);
	for (; *out != '\0'; out++)
		if (*out >= 'a' && *out <= 'z')
			*out = (char)(*out - 'a' + 'A');
}

/* An empty variable counts as absent: `PGRAB_NAME=` is how a compose file leaves one out. */
enum rc
option_read_env(const struct option_key *table, void *settings, struct err *err)
{
	enum rc rc = RC_OK;

	for (const struct option_key *k = table; k->name != NULL && rc == RC_OK; k++) {
		char name[80];
		const char *value;

		env_name(k->name, name, sizeof name);
		value = getenv(name);
		if (value != NULL && *value != '\0')
			rc = option_set(table, settings, k->name, value, name, err);
	}
	return rc;
}

struct argv {
	const struct option_key *table;
	void *settings; /* NULL: the values that are secret are blanked out */
	int argc, at;
	char **argv;
	bool *help_out;
	struct err *err;
};

static void
hide(const struct option_key *k, char *value)
{
	bool open =
	    strstr(k->name, "dsn") != NULL && strstr(value, "password") == NULL && strchr(value, '@') == NULL;

	if (!open)
		memset(value, '*', strlen(value));
}

static enum rc
take_value(struct argv *a, const struct option_key *k, const char *flag, char *value)
{
	if (k->type == OPTION_FLAG)
		value = value == NULL ? (char *)"on" : value;
	else if (value == NULL) {
		if (a->at + 1 >= a->argc)
			return err_set(a->err, RC_BAD, "%s needs a value: %s %s", flag, flag,
			    k->metavar == NULL ? "VALUE" : k->metavar);
		value = a->argv[++a->at];
	}
	if (a->settings != NULL)
		return option_set(a->table, a->settings, k->name, value, flag, a->err);
	if (k->secret)
		hide(k, value);
	return RC_OK;
}

static enum rc
unknown_flag(struct argv *a, const char *name, const char *flag)
{
	const char *near = option_nearest(a->table, name);
	char hint[80] = "";

	if (near == NULL)
		return err_set(a->err, RC_BAD, "unknown option %s", flag);
	snprintf(hint, sizeof hint, "%s", near);
	for (char *p = hint; *p != '\0'; p++)
		if (*p == '_')
			*p = '-';
	return err_set(a->err, RC_BAD, "unknown option %s; did you mean --%s?", flag, hint);
}

/* arg is what follows the two dashes. */
static enum rc
take_long(struct argv *a, char *arg)
{
	char name[80], flag[84];
	char *eq = strchr(arg, '=');
	size_t n = eq == NULL ? strlen(arg) : (size_t)(eq - arg);
	const struct option_key *k;

	snprintf(name, sizeof name, "%.*s", n < sizeof name ? (int)n : (int)sizeof name - 1, arg);
	snprintf(flag, sizeof flag, "--%s", name);
	if (strcmp(name, "help") == 0) {
		*a->help_out = true;
		return RC_OK;
	}
	k = option_find(a->table, name);
	if (k == NULL)
		return unknown_flag(a, name, flag);
	return take_value(a, k, flag, eq == NULL ? NULL : eq + 1);
}

static enum rc
take_short(struct argv *a, char *arg)
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
		char *arg = argv[a.at];

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
option_hide_secrets(const struct option_key *table, int argc, char **argv)
{
	struct err ignored;
	const char *operand;
	bool help;
	int n;

	(void)!option_read_argv(table, NULL, argc, argv, &operand, 1, &n, &help, &ignored);
}

enum rc
option_read(const struct option_key *table, const char *program, void *settings, size_t size,
    enum rc (*read_file)(void *settings, const char *file, struct err *err), int argc, char **argv,
    bool *help_out, struct err *err)
{
	size_t config = option_find(table, "config")->offset;
	AUTO_FREE char *flags = xcalloc(1, size); /* a first pass only to find --config */
	const char *operand, *file;
	int n_operands = 0;
	enum rc rc;

	option_defaults(table, flags);
	rc = option_read_argv(table, flags, argc, argv, &operand, 1, &n_operands, help_out, err);
	if (rc == RC_OK && n_operands > 0)
		rc = err_set(err, RC_BAD, "\"%s\": `%s` takes options only", operand, program);
	if (rc == RC_OK && !*help_out) {
		rc = option_read_env(table, settings, err);
		file = *(char **)(flags + config) != NULL ? *(char **)(flags + config)
							  : *(char **)((char *)settings + config);
		if (rc == RC_OK && file != NULL)
			rc = read_file(settings, file, err);
		if (rc == RC_OK)
			rc = option_read_argv(
			    table, settings, argc, argv, &operand, 1, &n_operands, help_out, err);
	}
	option_free(table, flags);
	return rc;
}
