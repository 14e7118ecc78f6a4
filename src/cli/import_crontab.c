/* pgrab import crontab: crontab(5). */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/file.h"
#include "cli/import.h"

struct crontab {
	struct import *m;
	struct buf zone;
	cJSON *env;
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

/* NAME=value, perhaps with blanks and quotes around it. */
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

/* The program's name. */
static void
put_key(cJSON *task, const char *command)
{
	size_t end = strcspn(command, " \t;|&<>");
	char key[80];
	const char *name = command;

	for (const char *s = command; s < command + end; s++) {
		if (*s == '/' && s + 1 < command + end)
			name = s + 1;
	}
	snprintf(key, sizeof key, "%.*s", (int)(command + end - name), name);
	cJSON_AddStringToObject(task, "key", key);
}

static void
add_task(struct crontab *t, const char *schedule, const char *text)
{
	struct buf command = {0}, input = {0};
	cJSON *task = cJSON_CreateObject(), *args = cJSON_CreateObject();
	bool has_input;

	split_percent(text, &command, &input, &has_input);
	put_key(task, buf_str(&command));
	cJSON_AddStringToObject(task, "kind", "shell");
	cJSON_AddStringToObject(task, "command", buf_str(&command));
	cJSON_AddStringToObject(task, "schedule", schedule);
	cJSON_AddStringToObject(task, "timezone", buf_str(&t->zone));
	/* cron tries once, and does not catch up on a missed run. */
	cJSON_AddNumberToObject(task, "max_attempts", 1);
	cJSON_AddStringToObject(task, "misfire", "skip");
	if (cJSON_GetArraySize(t->env) > 0)
		cJSON_AddItemToObject(args, "env", cJSON_Duplicate(t->env, true));
	if (has_input)
		cJSON_AddStringToObject(args, "stdin", buf_str(&input));
	cJSON_AddItemToObject(task, "args", args);
	import_add(t->m, task);
	buf_fini(&command);
	buf_fini(&input);
}

static void
take_line(struct crontab *t, char *line, int number)
{
	char *rest = line;

	for (int i = *line == '@' ? 1 : 5; i > 0; i--)
		rest = next_word(rest);
	if (*rest != '\0' && t->m->system)
		rest = next_word(rest);
	if (*rest == '\0' || strncmp(line, "@reboot", 7) == 0) {
		char what[40];

		snprintf(what, sizeof what, "line %d", number);
		import_leave_out(
		    t->m, what, *rest == '\0' ? "it is not a crontab line" : "@reboot has no counterpart");
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

int
import_crontab(struct import *m, const char *path)
{
	struct crontab t = {.m = m, .env = cJSON_CreateObject()};
	struct buf text = {0};
	int code = cli_read_file(m->c, path, &text);

	buf_adds(&t.zone, m->timezone);
	if (code == CLI_DONE && text.len > 0)
		take_all(&t, text.data);
	cJSON_Delete(t.env);
	buf_fini(&t.zone);
	buf_fini(&text);
	return code;
}
