/* pgrab import crontab: crontab(5), of Debian and of cronie.  A task does what cron did, or what it does not
 * do is said: which shell, in which folder, as whom, with which umask, and for how long. */
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/import.h"

struct crontab {
	struct import *m;
	const char *path;
	int line;
	char place[200]; /* "/etc/crontab, line 4" */
	struct buf zone;
	cJSON *env, *users; /* users: those that were spoken of */
	long delay;         /* RANDOM_DELAY, in minutes */
	char home[PATH_MAX];
};

static char *
next_word(char *s)
{
	s += strcspn(s, " \t");
	return s + strspn(s, " \t");
}

static void
trim_end(char *s)
{
	size_t n = strlen(s);

	while (n > 0 && strchr(" \t", s[n - 1]) != NULL)
		s[--n] = '\0';
}

static const char *
env_value(const struct crontab *t, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(t->env, name));
}

static void
note(struct crontab *t, const char *name, const char *value, const char *why)
{
	AUTO_BUF struct buf text = {0};

	buf_addf(&text, "%s=%s %s", name, value, why);
	import_note(t->m, t->place, buf_str(&text));
}

/* In minutes.  A jitter that pgrab would refuse would keep the whole file from being applied. */
static void
set_delay(struct crontab *t, const char *value)
{
	char *end;

	t->delay = strtol(value, &end, 10);
	if (end == value || *end != '\0' || t->delay < 0 || t->delay > 7 * 24 * 60) {
		note(t, "RANDOM_DELAY", value, "is left out: it is not a number of minutes up to 7 days");
		t->delay = 0;
	}
}

/* What cron itself reads; everything else is the job's. */
static void
set_variable(struct crontab *t, const char *name, const char *value)
{
	static const char mail[] = " MAILTO MAILFROM CONTENT_TYPE CONTENT_TRANSFER_ENCODING ";
	char word[40];

	snprintf(word, sizeof word, " %s ", name);
	if (strcmp(name, "CRON_TZ") == 0) {
		buf_reset(&t->zone);
		buf_adds(&t->zone, *value != '\0' ? value : t->m->timezone);
	} else if (strcmp(name, "RANDOM_DELAY") == 0) {
		set_delay(t, value);
	} else if (strstr(mail, word) != NULL) {
		if (*value != '\0')
			note(t, name, value,
			    "is left out: output is kept in the history, and an alert can "
			    "send mail when a task fails");
	} else {
		cJSON_DeleteItemFromObjectCaseSensitive(t->env, name);
		cJSON_AddStringToObject(t->env, name, value);
	}
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
	trim_end(value);
	n = strlen(value);
	if (n > 1 && (*value == '"' || *value == '\'') && value[n - 1] == *value) {
		value[n - 1] = '\0';
		value++;
	}
	set_variable(t, line, value);
	return true;
}

/* The first % that is not escaped ends the command; the rest is its standard input, where % ends a line.
 * No rest, no input; the last line is ended once. */
static void
split_percent(const char *text, struct buf *command, struct buf *input, bool *has_input)
{
	struct buf *to = command;

	for (; *text != '\0'; text++) {
		if (*text == '\\' && text[1] == '%')
			buf_addc(to, *++text);
		else if (to == command && *text == '\\' && text[1] == '\\')
			buf_add(to, text++, 2); /* the shell's: it escapes no % behind it */
		else if (*text == '%' && to == command)
			to = input;
		else
			buf_addc(to, *text == '%' ? '\n' : *text);
	}
	*has_input = input->len > 0;
	if (*has_input && input->data[input->len - 1] != '\n')
		buf_addc(input, '\n');
}

/* The program's name; after the user's, if the table is one of many users, or of one who was named: two
 * users may run the same program.  A line may begin with "(" or ";". */
static void
put_key(struct crontab *t, cJSON *task, const char *user, const char *command)
{
	size_t end = strcspn(command, " \t;|&<>");
	char key[80];
	const char *name = command;
	bool whose = t->m->system || t->m->user != NULL;

	for (const char *s = command; s < command + end; s++) {
		if (*s == '/' && s + 1 < command + end)
			name = s + 1;
	}
	snprintf(key, sizeof key, "%.30s%s%.*s", whose ? user : "", whose ? "/" : "",
	    end > 0 ? (int)(command + end - name) : 3, end > 0 ? name : "job");
	(void)utf8_trim(key, strlen(key));
	cJSON_AddStringToObject(task, "key", key);
}

/* Puts the home of a user of this machine into t->home; false: there is no such user. */
static bool
find_home(struct crontab *t, const char *user)
{
	struct passwd entry, *p = NULL;
	char space[16384];

	(void)getpwnam_r(user, &entry, space, sizeof space, &p);
	if (p != NULL)
		snprintf(t->home, sizeof t->home, "%s", p->pw_dir);
	return p != NULL;
}

/* HOME of the table, else that of the user on this machine; NULL: there is none. */
static const char *
home_of(struct crontab *t, const char *user)
{
	if (env_value(t, "HOME") != NULL)
		return env_value(t, "HOME");
	return find_home(t, user) ? t->home : NULL;
}

/* cron starts a job as its user, in that user's home.  Says once for each user what pgrab does instead. */
static void
speak_of(struct crontab *t, const char *user, const char *home)
{
	char place[120];

	if (cJSON_GetObjectItemCaseSensitive(t->users, user) != NULL)
		return;
	snprintf(place, sizeof place, "user %.60s", user);
	cJSON_AddTrueToObject(t->users, user);
	import_note(t->m, place,
	    "cron ran these jobs as this user; pgrab runs them as the node's run_as, or as that of the "
	    "section [owner ROLE] of the role that applies the file");
	if (home == NULL)
		import_note(t->m, place,
		    "it is not a user of this machine, so its home is not known: the jobs start in the "
		    "node's job_cwd");
}

/* As cron: SHELL -c COMMAND, in the home of the user, with its environment, and umask 022. */
static void
put_command(struct crontab *t, cJSON *task, const char *user, const char *command, const char *input)
{
	const char *shell = env_value(t, "SHELL"), *home = home_of(t, user), *argv[] = {"-c", command};
	bool other = shell != NULL && strcmp(shell, "/bin/sh") != 0;
	cJSON *args = cJSON_CreateObject();

	speak_of(t, user, home);
	cJSON_AddStringToObject(task, "kind", other ? "exec" : "shell");
	cJSON_AddStringToObject(task, "command", other ? shell : command);
	if (other)
		cJSON_AddItemToObject(args, "argv", cJSON_CreateStringArray(argv, 2));
	if (cJSON_GetArraySize(t->env) > 0)
		cJSON_AddItemToObject(args, "env", cJSON_Duplicate(t->env, true));
	if (input != NULL)
		cJSON_AddStringToObject(args, "stdin", input);
	if (home != NULL)
		cJSON_AddStringToObject(args, "cwd", home);
	cJSON_AddStringToObject(args, "umask", "022");
	cJSON_AddItemToObject(task, "args", args);
}

static void
add_task(struct crontab *t, const char *user, const char *schedule, const char *text)
{
	AUTO_BUF struct buf command = {0}, input = {0}, fires = {0};
	cJSON *task = cJSON_CreateObject();
	bool has_input;

	split_percent(text, &command, &input, &has_input);
	put_key(t, task, user, buf_str(&command));
	put_command(t, task, user, buf_str(&command), has_input ? buf_str(&input) : NULL);
	import_fields(t->m, t->place, schedule, buf_str(&command), &fires);
	cJSON_AddStringToObject(task, "schedule", buf_str(&fires));
	cJSON_AddStringToObject(task, "timezone", buf_str(&t->zone));
	if (t->delay > 0) {
		char jitter[40];

		snprintf(jitter, sizeof jitter, "%ld min", t->delay);
		cJSON_AddStringToObject(task, "jitter", jitter);
	}
	(void)import_add(t->m, task, t->place);
}

static const char *
own_name(const struct import *m)
{
	const struct passwd *p = m->user == NULL ? getpwuid(getuid()) : NULL;

	return m->user != NULL ? m->user : p != NULL ? p->pw_name : "?";
}

/* A table of many users that is read as that of one would run a program called root. */
static void
doubt(struct crontab *t, const char *command)
{
	char name[64];
	size_t n = strcspn(command, " \t");

	snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : 0), command);
	if (command[n] != '\0' && *name != '\0' && find_home(t, name))
		note(t, "its command", command,
		    "begins with a user of this machine: if the table names users, use --system");
}

/* -n, -q and -s of the BSDs: no mail if all is well, no log, not beside itself.  No program is called like
 * that. */
static char *
skip_flags(struct crontab *t, char *command)
{
	char *rest = command;
	size_t n;
	AUTO_BUF struct buf text = {0};

	while (*rest == '-' && (n = strspn(rest + 1, "nqs")) > 0 && strchr(" \t", rest[1 + n]) != NULL)
		rest = next_word(rest);
	for (n = (size_t)(rest - command); n > 0 && strchr(" \t", command[n - 1]) != NULL; n--)
		;
	if (n > 0) {
		buf_addf(&text,
		    "%.*s before its command is dropped: here each run is recorded, none sends mail, and "
		    "none starts beside another of its task",
		    (int)n, command);
		import_note(t->m, t->place, buf_str(&text));
	}
	return rest;
}

static void
take_line(struct crontab *t, char *line)
{
	char *rest = line, *user = NULL, *end = line;
	char name[64];

	for (int i = *line == '@' ? 1 : 5; i > 0; i--) {
		end = rest + strcspn(rest, " \t");
		rest = next_word(rest);
	}
	if (*rest != '\0' && t->m->system) {
		user = rest;
		rest = next_word(rest);
	}
	if (*rest != '\0')
		rest = skip_flags(t, rest);
	if (*rest == '\0' || *rest == '%' || strncmp(line, "@reboot", 7) == 0) {
		import_leave_out(t->m, t->place,
		    *rest == '\0'  ? "it is not a crontab line"
		    : *rest == '%' ? "it has no command"
				   : "@reboot has no counterpart");
		return;
	}
	*end = '\0';
	if (strchr(line, '\r') != NULL) {
		import_leave_out(t->m, t->place, "it is not a crontab line");
		return;
	}
	snprintf(name, sizeof name, "%.*s", user != NULL ? (int)strcspn(user, " \t") : 63,
	    user != NULL ? user : own_name(t->m));
	if (user == NULL)
		doubt(t, rest);
	if (user == NULL || t->m->user == NULL || strcmp(t->m->user, name) == 0)
		add_task(t, name, line, rest);
}

static void
take_all(struct crontab *t, char *text)
{
	for (char *line = text, *next; line != NULL; line = next) {
		bool standard = strcmp(t->path, "-") == 0;

		snprintf(t->place, sizeof t->place, "%.150s%sline %d", standard ? "" : t->path,
		    standard ? "" : ", ", ++t->line);
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		if (*line != '\0' && line[strlen(line) - 1] == '\r')
			line[strlen(line) - 1] = '\0';
		line += strspn(line, " \t");
		if (*line == '\0' || *line == '#')
			continue;
		if (!utf8_is_text(line))
			import_leave_out(t->m, t->place, "it is not UTF-8, and pgrab keeps nothing else");
		else if (!take_variable(t, line))
			take_line(t, line);
	}
}

int
import_crontab(struct import *m, const char *path)
{
	struct crontab t = {.m = m, .path = path, .env = cJSON_CreateObject(), .users = cJSON_CreateObject()};
	AUTO_BUF struct buf text = {0};
	int code = cli_read_file(m->c, path, &text);

	buf_adds(&t.zone, m->timezone);
	if (code == CLI_DONE && text.len > 0)
		take_all(&t, text.data);
	cJSON_Delete(t.env);
	cJSON_Delete(t.users);
	buf_fini(&t.zone);
	return code;
}
