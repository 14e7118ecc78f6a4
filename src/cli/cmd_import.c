/* pgrab import crontab: the lines of a crontab as a file for pgrab apply, printed or applied. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/commands.h"
#include "cli/file.h"

struct options {
	struct cli_common common;
	char *timezone, *source;
	bool system, apply, dry_run;
};

static const struct option_key keys[] = {
    CLI_DSN_ROW,
    CLI_JSON_ROW,
    {"timezone", 'z', OPTION_TEXT, offsetof(struct options, timezone), "UTC", 0, 0, NULL, "ZONE",
	"in which cron reads it, such as Europe/Berlin; a line CRON_TZ= says so itself", false},
    {"source", 0, OPTION_TEXT, offsetof(struct options, source), "crontab", 0, 0, NULL, "SOURCE",
	"to which the tasks belong", false},
    {"system", 0, OPTION_FLAG, offsetof(struct options, system), NULL, 0, 0, NULL, NULL,
	"lines name a user before the command, as in /etc/crontab", false},
    {"apply", 0, OPTION_FLAG, offsetof(struct options, apply), NULL, 0, 0, NULL, NULL,
	"make these tasks, instead of printing the file", false},
    {"dry_run", 'n', OPTION_FLAG, offsetof(struct options, dry_run), NULL, 0, 0, NULL, NULL,
	"with --apply: show what would change, and change nothing", false},
    CLI_LAST_ROW,
};

struct crontab {
	const struct options *options;
	struct buf zone;
	cJSON *env, *tasks;
	int skipped; /* lines that cannot be had */
};

static char *
word_end(char *s)
{
	return s + strcspn(s, " \t");
}

static char *
next_word(char *s)
{
	s = word_end(s);
	return s + strspn(s, " \t");
}

/* NAME=value, with or without blanks and quotes around. */
static bool
take_variable(struct crontab *t, char *line)
{
	size_t n = strspn(line, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
	char *value = line + n + strspn(line + n, " \t");

	if (n == 0 || *value != '=' || strchr("0123456789", *line) != NULL)
		return false;
	value += 1 + strspn(value + 1, " \t");
	line[n] = '\0';
	n = strlen(value);
	if (n > 1 && (*value == '"' || *value == '\'') && value[n - 1] == *value) {
		value[n - 1] = '\0';
		value++;
	}
	if (strcmp(line, "CRON_TZ") == 0 || strcmp(line, "TZ") == 0) {
		buf_reset(&t->zone);
		buf_adds(&t->zone, value);
	} else if (strcmp(line, "MAILTO") != 0 && strcmp(line, "SHELL") != 0) {
		cJSON_DeleteItemFromObjectCaseSensitive(t->env, line);
		cJSON_AddStringToObject(t->env, line, value);
	}
	return true;
}

/* The first % that is not escaped ends the command; the rest is its standard input, where % ends a line. */
static void
split_percent(const char *text, struct buf *command, struct buf *input, bool *has_input)
{
	struct buf *to = command;

	*has_input = false;
	for (; *text != '\0'; text++) {
		if (*text == '\\' && text[1] == '%')
			buf_addc(to, *++text);
		else if (*text == '%' && to == command) {
			to = input;
			*has_input = true;
		} else
			buf_addc(to, *text == '%' ? '\n' : *text);
	}
	if (*has_input)
		buf_addc(input, '\n');
}

static bool
key_taken(const cJSON *tasks, const char *key)
{
	const cJSON *task;

	cJSON_ArrayForEach(task, tasks)
	{
		if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "key")), key) == 0)
			return true;
	}
	return false;
}

/* The program's name, with a number where it comes again. */
static void
put_key(struct crontab *t, cJSON *task, const char *command)
{
	size_t end = strcspn(command, " \t;|&<>");
	char key[100], base[80];
	const char *name = command;

	for (const char *s = command; s < command + end; s++) {
		if (*s == '/' && s + 1 < command + end)
			name = s + 1;
	}
	snprintf(base, sizeof base, "%.*s", (int)(command + end - name), name);
	snprintf(key, sizeof key, "%s", base);
	for (int n = 2; key_taken(t->tasks, key); n++)
		snprintf(key, sizeof key, "%s-%d", base, n);
	cJSON_AddStringToObject(task, "key", key);
}

static void
add_task(struct crontab *t, const char *schedule, const char *text)
{
	struct buf command = {0}, input = {0};
	cJSON *task = cJSON_CreateObject(), *args = cJSON_CreateObject();
	bool has_input;

	split_percent(text, &command, &input, &has_input);
	put_key(t, task, buf_str(&command));
	cJSON_AddStringToObject(task, "kind", "shell");
	cJSON_AddStringToObject(task, "command", buf_str(&command));
	cJSON_AddStringToObject(task, "schedule", schedule);
	cJSON_AddStringToObject(task, "timezone", buf_str(&t->zone));
	/* cron tries once, and a run that was missed is missed. */
	cJSON_AddNumberToObject(task, "max_attempts", 1);
	cJSON_AddStringToObject(task, "misfire", "skip");
	if (cJSON_GetArraySize(t->env) > 0)
		cJSON_AddItemToObject(args, "env", cJSON_Duplicate(t->env, true));
	if (has_input)
		cJSON_AddStringToObject(args, "stdin", buf_str(&input));
	cJSON_AddItemToObject(task, "args", args);
	cJSON_AddItemToArray(t->tasks, task);
	buf_fini(&command);
	buf_fini(&input);
}

static void
take_line(struct crontab *t, char *line, int number)
{
	char *rest = line;

	for (int i = *line == '@' ? 1 : 5; i > 0; i--)
		rest = next_word(rest);
	if (*rest != '\0' && t->options->system)
		rest = next_word(rest);
	if (*rest == '\0' || strncmp(line, "@reboot", 7) == 0) {
		fprintf(stderr, "pgrab import: line %d is left out: %s\n", number,
		    *rest == '\0' ? "it is not a crontab line" : "@reboot has no counterpart");
		t->skipped++;
		return;
	}
	char *end = line;

	for (int i = *line == '@' ? 1 : 5; i > 0; i--)
		end = word_end(end + strspn(end, " \t"));
	*end = '\0';
	add_task(t, line, rest);
}

static void
take_all(struct crontab *t, char *text)
{
	int number = 1;

	for (char *line = text, *next; line != NULL; line = next, number++) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		line[strcspn(line, "\r")] = '\0';
		line += strspn(line, " \t");
		if (*line != '\0' && *line != '#' && !take_variable(t, line))
			take_line(t, line, number);
	}
}

static int
give(struct cli *c, const struct options *o, char *file)
{
	struct buf out = {0};
	enum rc rc;

	if (o->apply) {
		rc = cli_apply(c, file, NULL, false);
		return rc == RC_OK ? cli_apply_end(c, o->dry_run) : cli_fail(c, rc, NULL);
	}
	/* cJSON indents by tabs, of which there are no others: those in texts are escaped. */
	for (char *tab = file; (tab = strchr(tab, '\t')) != NULL;)
		*tab = ' ';
	text_json(&out, file);
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	return CLI_DONE;
}

static int
run_import(struct cli *c)
{
	const struct options *o = c->options;
	struct crontab t = {.options = o, .env = cJSON_CreateObject(), .tasks = cJSON_CreateArray()};
	struct buf text = {0};
	cJSON *file = cJSON_CreateObject();
	char *printed = NULL;
	int code;

	if (strcmp(c->operands[0], "crontab") != 0)
		code = cli_usage(c->cmd, "it imports a crontab: pgrab import crontab FILE");
	else
		code = cli_read_file(c, c->operands[1], &text);
	buf_adds(&t.zone, o->timezone);
	if (code == CLI_DONE && text.len > 0)
		take_all(&t, text.data);
	cJSON_AddStringToObject(file, "source", o->source);
	cJSON_AddItemToObject(file, "tasks", t.tasks);
	printed = cJSON_Print(file);
	if (code == CLI_DONE)
		code = give(c, o, printed);
	cJSON_free(printed);
	cJSON_Delete(file);
	cJSON_Delete(t.env);
	buf_fini(&t.zone);
	buf_fini(&text);
	return code == CLI_DONE && t.skipped > 0 ? CLI_FAILED : code;
}

const struct command cmd_import = {
    .name = "import",
    .group = GROUP_DO,
    .usage = "crontab FILE [OPTIONS]",
    .summary = "turn the lines of a crontab into tasks: a file for pgrab apply, or at once with --apply",
    .details =
	"crontab -l | pgrab import crontab - --timezone Europe/Berlin > tasks.json\n"
	"Variables become args.env (MAILTO and SHELL are left out: see docs/alerts.md for mail), what "
	"follows\n"
	"a % the standard input. Nodes need --allow shell. Exit status 1 when a line could not be imported.",
    .options = keys,
    .options_size = sizeof(struct options),
    .min_operands = 2,
    .max_operands = 2,
    .exec = run_import,
};
