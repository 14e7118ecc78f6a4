/* pgrab import systemd: the timers of a folder, and what the services that they start do. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "cli/import.h"
#include "cli/import_unit.h"

#define NAME_CHARS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789"

/* One timer, while it is read. */
struct timer {
	struct import *m;
	const char *folder, *file; /* "backup.timer" */
	char name[200];            /* "backup" */
	cJSON *timer, *service;
	cJSON *env, *argv; /* argv: an array per command */
	cJSON *careless;   /* for each command: its failure counts as success */
	struct buf cwd;    /* WorkingDirectory, if it is a path */
	int64_t delay;     /* RandomizedDelaySec */
	const char *why;   /* it is left out */
};

/* One NAME=value of Environment=.  systemd passes over a name that is none. */
static void
set_env(struct timer *t, const char *word)
{
	AUTO_BUF struct buf value = {0};
	char *equals;

	if (!unit_expand(word, NULL, false, &value, &t->why) ||
	    (equals = strchr(buf_str(&value), '=')) == NULL) {
		return;
	}
	*equals = '\0';
	if (value.data[strspn(value.data, NAME_CHARS)] == '\0' && strspn(value.data, "0123456789") == 0 &&
	    equals > value.data) {
		cJSON_DeleteItemFromObjectCaseSensitive(t->env, value.data);
		cJSON_AddStringToObject(t->env, value.data, equals + 1);
	}
}

static bool
read_env(struct timer *t)
{
	const char *value;

	for (int i = 0; (value = unit_value(t->service, "Service", "Environment", i)) != NULL; i++) {
		cJSON *words = unit_words(value), *word;

		if (words == NULL)
			t->why = "its Environment= cannot be read";
		cJSON_ArrayForEach(word, words) set_env(t, word->valuestring);
		cJSON_Delete(words);
	}
	return t->why == NULL;
}

/* One line of Exec...=, after its prefixes. */
static bool
read_command(struct timer *t, const char *text)
{
	bool careless = false, variables = true;
	cJSON *words, *word, *argv;

	for (;; text++) {
		if (*text == '-')
			careless = true;
		else if (*text == ':')
			variables = false;
		else
			break;
	}
	if (*text != '\0' && strchr("@+!|", *text) != NULL) {
		t->why = "its command has a prefix (@, +, !, |) that has no counterpart";
		return false;
	}
	words = unit_words(text);
	if (words == NULL || cJSON_GetArraySize(words) == 0) {
		cJSON_Delete(words);
		t->why =
		    "its command cannot be read: a quote has no end, a character is given by its number, or "
		    "it is several, with ; between them";
		return false;
	}
	argv = cJSON_CreateArray();
	cJSON_ArrayForEach(word, words)
	{
		if (t->why == NULL)
			unit_arguments(word->valuestring, t->env, variables, argv, &t->why);
	}
	cJSON_Delete(words);
	if (t->why == NULL && cJSON_GetArraySize(argv) == 0)
		t->why = "its command is empty";
	cJSON_AddItemToArray(t->argv, argv);
	cJSON_AddItemToArray(t->careless, cJSON_CreateBool(careless));
	return t->why == NULL;
}

static bool
read_folder(struct timer *t)
{
	const char *folder = unit_last(t->service, "Service", "WorkingDirectory");

	return folder == NULL || *folder != '/' || unit_expand(folder, NULL, false, &t->cwd, &t->why);
}

static bool
read_service(struct timer *t)
{
	static const char *const commands[] = {"ExecStartPre", "ExecStart", "ExecStartPost"};
	const char *unit = unit_last(t->timer, "Timer", "Unit"), *value;
	char file[256], path[4096];

	snprintf(file, sizeof file, "%s%s", unit != NULL ? unit : t->name, unit != NULL ? "" : ".service");
	snprintf(path, sizeof path, "%s/%s", t->folder, file);
	if (strchr(file, '/') != NULL || access(path, F_OK) != 0) {
		t->why = "its service is not in the folder";
		return false;
	}
	if (unit_read(t->m->c, path, t->service) != CLI_DONE) {
		t->why = "its service cannot be read";
		return false;
	}
	if (!read_env(t) || !read_folder(t))
		return false;
	for (size_t k = 0; k < sizeof commands / sizeof *commands; k++) {
		for (int i = 0; (value = unit_value(t->service, "Service", commands[k], i)) != NULL; i++) {
			if (!read_command(t, value))
				return false;
		}
	}
	if (cJSON_GetArraySize(t->argv) == 0)
		t->why = "its service has no ExecStart";
	return t->why == NULL;
}

/* A time that pgrab would refuse would keep the whole file from being applied; systemd's longest and shortest
 * become pgrab's, but for a delay, which is said. */
static void
put_span(cJSON *task, const char *column, int64_t us, int64_t most)
{
	char span[60];

	us = us > most ? most : us > 0 && us < US_PER_MS ? US_PER_MS : us;
	snprintf(span, sizeof span, "%.15g s", (double)us / US_PER_S);
	if (us > 0)
		cJSON_AddStringToObject(task, column, span);
}

#define DAY_US (86400 * (int64_t)US_PER_S)

static int64_t
delay_of(struct timer *t)
{
	const char *text = unit_last(t->timer, "Timer", "RandomizedDelaySec");
	int64_t us = text != NULL ? unit_span_us(text) : 0;

	if (us >= 0 && us <= 7 * DAY_US)
		return us;
	import_note(t->m, t->file,
	    us < 0 ? "its RandomizedDelaySec= is left out: it cannot be read"
		   : "its RandomizedDelaySec= becomes 7 days, which is the most");
	return us < 0 ? 0 : 7 * DAY_US;
}

static void
put_args(struct timer *t, cJSON *task, int command)
{
	cJSON *argv = cJSON_Duplicate(cJSON_GetArrayItem(t->argv, command), true),
	      *program = cJSON_DetachItemFromArray(argv, 0), *args = cJSON_CreateObject();

	cJSON_AddItemToObject(task, "command", program);
	if (cJSON_GetArraySize(argv) > 0)
		cJSON_AddItemToObject(args, "argv", argv);
	else
		cJSON_Delete(argv);
	if (cJSON_GetArraySize(t->env) > 0)
		cJSON_AddItemToObject(args, "env", cJSON_Duplicate(t->env, true));
	if (t->cwd.len > 0)
		cJSON_AddStringToObject(args, "cwd", buf_str(&t->cwd));
	cJSON_AddItemToObject(task, "args", args);
}

/* TimeoutStartSec bounds the commands of a oneshot service; with another type their end is not waited for. */
static int64_t
time_allowed(struct timer *t)
{
	const char *type = unit_last(t->service, "Service", "Type"),
		   *text = unit_last(t->service, "Service", "RuntimeMaxSec");

	if (type != NULL && strcmp(type, "oneshot") == 0)
		text = unit_last(t->service, "Service", "TimeoutStartSec");
	if (text == NULL && type != NULL && strcmp(type, "oneshot") == 0)
		text = unit_last(t->service, "Service", "TimeoutSec");
	return text != NULL ? unit_span_us(text) : 0;
}

/* The commands of the service, each the child of the one before it; the first has the schedule. */
static void
put_tasks(struct timer *t, const char *schedule, const char *zone)
{
	const char *parent = NULL;

	for (int i = 0; i < cJSON_GetArraySize(t->argv); i++) {
		cJSON *task = cJSON_CreateObject();

		cJSON_AddStringToObject(task, "key", t->name);
		cJSON_AddStringToObject(task, "kind", "exec");
		put_args(t, task, i);
		if (i == 0) {
			cJSON_AddStringToObject(task, "schedule", schedule);
			cJSON_AddStringToObject(task, "timezone", *zone != '\0' ? zone : t->m->timezone);
			put_span(task, "jitter", t->delay, 7 * DAY_US);
		} else {
			cJSON_AddItemToObject(task, "parents", cJSON_CreateStringArray(&parent, 1));
			if (cJSON_IsTrue(cJSON_GetArrayItem(t->careless, i - 1)))
				cJSON_AddStringToObject(task, "run_if", "always");
		}
		put_span(task, "timeout", time_allowed(t), 365 * DAY_US);
		if (!import_add(t->m, task, t->file))
			return;
		parent = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "key"));
	}
}

/* OnUnitActiveSec and OnUnitInactiveSec: this long after its start, or its end. */
static bool
put_elapsed(struct timer *t, const char *key, const char *word)
{
	const char *value = unit_last(t->timer, "Timer", key);
	int64_t us = value != NULL ? unit_span_us(value) : -1;
	char schedule[60];

	if (us < 0)
		return false;
	snprintf(schedule, sizeof schedule, "%s %.15gs", word, (double)us / US_PER_S);
	put_tasks(t, schedule, "");
	return true;
}

static void
put_schedules(struct timer *t)
{
	char schedule[IMPORT_SCHEDULE_SIZE], zone[64];
	const char *value;
	int n = 0;

	t->delay = delay_of(t);
	for (; (value = unit_value(t->timer, "Timer", "OnCalendar", n)) != NULL; n++) {
		const char *why;

		if (import_calendar(value, schedule, zone, &why)) {
			put_tasks(t, schedule, zone);
		} else {
			AUTO_BUF struct buf what = {0};

			buf_addf(&what, "%s, OnCalendar=%s,", t->file, value);
			import_leave_out(t->m, buf_str(&what), why);
		}
	}
	n += put_elapsed(t, "OnUnitActiveSec", "@every");
	n += put_elapsed(t, "OnUnitInactiveSec", "@after");
	if (n == 0)
		t->why = "it has no OnCalendar, OnUnitActiveSec or OnUnitInactiveSec with a counterpart";
}

/* What of a section is not carried over, in one line. */
static void
name_rest(struct timer *t, const cJSON *unit, const char *section, const char *known)
{
	AUTO_BUF struct buf text = {0}, word = {0};
	const cJSON *key;

	cJSON_ArrayForEach(key, cJSON_GetObjectItemCaseSensitive(unit, section))
	{
		buf_reset(&word);
		buf_addf(&word, " %s ", key->string);
		if (strstr(known, buf_str(&word)) == NULL && text.len < 1000)
			buf_addf(&text, "%s %s=", text.len == 0 ? "not carried over:" : ",", key->string);
	}
	if (text.len > 0)
		import_note(t->m, t->file, buf_str(&text));
}

static void
put_notes(struct timer *t)
{
	static const struct {
		const char *key, *note;
	} notes[] = {
	    {"User", "its User= is up to the node: run_as in an [owner NAME] section of the node's file"},
	    {"EnvironmentFile", "its EnvironmentFile= is not read: put what it holds into args.env"},
	    {"ExecCondition", "its ExecCondition= is left out"},
	    {"ExecStopPost", "its ExecStopPost= is left out"},
	};

	const char *folder = unit_last(t->service, "Service", "WorkingDirectory");

	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
		if (unit_value(t->service, "Service", notes[i].key, 0) != NULL)
			import_note(t->m, t->file, notes[i].note);
	}
	name_rest(t, t->timer, "Timer",
	    " OnCalendar OnUnitActiveSec OnUnitInactiveSec RandomizedDelaySec Unit Persistent AccuracySec ");
	name_rest(t, t->service, "Service",
	    " Type User EnvironmentFile ExecCondition ExecStopPost ExecStart ExecStartPre ExecStartPost "
	    "Environment WorkingDirectory TimeoutStartSec TimeoutSec RuntimeMaxSec ");
	if (folder != NULL && *folder != '/')
		import_note(t->m, t->file, "its WorkingDirectory= is left out: it is not a path");
}

static void
take_timer(struct import *m, const char *folder, const char *file)
{
	struct timer t = {.m = m,
	    .folder = folder,
	    .file = file,
	    .timer = cJSON_CreateObject(),
	    .service = cJSON_CreateObject(),
	    .env = cJSON_CreateObject(),
	    .argv = cJSON_CreateArray(),
	    .careless = cJSON_CreateArray()};
	char path[4096];

	snprintf(t.name, sizeof t.name, "%.*s", (int)(strlen(file) - strlen(".timer")), file);
	snprintf(path, sizeof path, "%s/%s", folder, file);
	if (t.name[0] != '\0' && t.name[strlen(t.name) - 1] == '@')
		t.why = "it is a template, of which only instances run";
	else if (unit_read(m->c, path, t.timer) != CLI_DONE)
		t.why = "it cannot be read";
	else if (t.timer->child == NULL)
		t.why = "it is empty, or masked";
	else if (read_service(&t))
		put_schedules(&t);
	if (t.why != NULL)
		import_leave_out(m, file, t.why);
	else
		put_notes(&t);
	cJSON_Delete(t.timer);
	cJSON_Delete(t.service);
	cJSON_Delete(t.env);
	cJSON_Delete(t.argv);
	cJSON_Delete(t.careless);
	buf_fini(&t.cwd);
}

static int
is_timer(const struct dirent *entry)
{
	const char *dot = strrchr(entry->d_name, '.');

	return dot != NULL && dot != entry->d_name && strcmp(dot, ".timer") == 0;
}

int
import_systemd(struct import *m, const char *folder)
{
	struct dirent **entry = NULL;
	int n = scandir(folder, &entry, is_timer, alphasort);

	if (n < 0)
		return cli_failed(m->c, "could not read the folder %s: %s", folder, strerror(errno));
	for (int i = 0; i < n; i++) {
		take_timer(m, folder, entry[i]->d_name);
		free(entry[i]);
	}
	free(entry);
	return CLI_DONE;
}
