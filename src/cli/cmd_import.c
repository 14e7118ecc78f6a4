/* pgrab import: the jobs of another scheduler as a file for pgrab apply, printed or applied. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "cli/commands.h"
#include "cli/import.h"

#define ARGS_MOST 1048576
#define FILE_MOST 240000000 /* of tasks as text; the database takes 268435455 as JSON, a bit longer */

struct options {
	struct cli_common common;
	char *timezone, *source, *database, *role, *user, *calendar;
	bool system, apply, dry_run;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    {"timezone", 'z', OPTION_TEXT, offsetof(struct options, timezone), "ZONE",
	"time zone of schedules that do not name one, such as Europe/Berlin", "UTC"},
    CLI_TEXT_ROW(
	source, 0, "SOURCE", "source of the tasks (default: crontab, pg_cron, pg_timetable or systemd)"),
    CLI_FLAG_ROW(system, 0, "the crontab names a user before each command, as in /etc/crontab"),
    CLI_TEXT_ROW(database, 0, "NAME",
	"of pg_cron: the jobs of this database (default: the one that SOURCE connects to)"),
    CLI_TEXT_ROW(role, 0, "ROLE", "of pg_cron: only the jobs of this role"),
    CLI_TEXT_ROW(user, 0, "USER",
	"of a crontab: whose it is, with which the keys begin (default: yours, and they do not); "
	"with --system: only the jobs of this user"),
    CLI_TEXT_ROW(calendar, 0, "NAME",
	"of an iCalendar file: which calendar its days are closed in (default: what the file is called in "
	"itself, else holidays)"),
    CLI_FLAG_ROW(apply, 0, "apply the tasks instead of printing the file"),
    CLI_FLAG_ROW(dry_run, 'n', "with --apply: show what would change, but change nothing"),
    CLI_LAST_ROW,
};

static const struct {
	const char *word;
	int (*read)(struct import *m, const char *source);
} readers[] = {
    {"crontab", import_crontab},
    {"pg_cron", import_pg_cron},
    {"pg_timetable", import_pg_timetable},
    {"systemd", import_systemd},
    {"ics", import_ics},
};

void
import_leave_out(struct import *m, const char *what, const char *why)
{
	(void)cli_failed(m->c, "%s is left out: %s", what, why);
	m->left_out++;
}

void
import_note(struct import *m, const char *what, const char *note)
{
	(void)cli_failed(m->c, "%s: %s", what, note);
}

/* A key, and the number that the next one like it tries: 50,000 lines may have the same command. */
struct key {
	int next;
	char text[];
};

static int
compare_keys(const void *a, const void *b)
{
	return strcmp(((const struct key *)a)->text, ((const struct key *)b)->text);
}

/* The one that is kept; *is_new: it was not there before. */
static struct key *
keep_key(struct import *m, const char *text, bool *is_new)
{
	size_t n = strlen(text) + 1;
	struct key *key = xmalloc(sizeof *key + n), **kept;

	key->next = 2;
	memcpy(key->text, text, n);
	kept = tsearch(key, &m->keys, compare_keys);
	if (kept == NULL)
		abort(); /* no memory: as xmalloc does */
	*is_new = *kept == key;
	if (!*is_new)
		free(key);
	return *kept;
}

void
import_forget(struct import *m)
{
	while (m->keys != NULL) {
		struct key *key = *(struct key **)m->keys;

		tdelete(key, &m->keys, compare_keys);
		free(key);
	}
	cJSON_Delete(m->places);
}

static void
put_default(cJSON *task, const char *column, const char *value)
{
	if (cJSON_GetObjectItemCaseSensitive(task, column) == NULL)
		cJSON_AddStringToObject(task, column, value);
}

/* Behind commas and colons, where the database writes one and cJSON does not. */
static size_t
spaces_of(const cJSON *value)
{
	size_t n = 0;
	const cJSON *one;

	cJSON_ArrayForEach(one, value) n += (one != value->child) + (one->string != NULL) + spaces_of(one);
	return n;
}

/* As the database counts it. */
static size_t
length_of(const cJSON *value)
{
	char *text = cJSON_PrintUnformatted(value);
	size_t n = text != NULL ? strlen(text) + spaces_of(value) : 0;

	cJSON_free(text);
	return n;
}

bool
import_add(struct import *m, cJSON *task, const char *place)
{
	cJSON *key = cJSON_GetObjectItemCaseSensitive(task, "key");
	AUTO_BUF struct buf numbered = {0};
	struct key *first;
	bool is_new;

	if (cJSON_GetObjectItemCaseSensitive(task, "schedule") != NULL)
		put_default(task, "misfire", "once");
	put_default(task, "timeout", "7 days");
	if (cJSON_GetObjectItemCaseSensitive(task, "max_attempts") == NULL)
		cJSON_AddNumberToObject(task, "max_attempts", 1);
	m->length += length_of(task);
	if (m->length > FILE_MOST) {
		import_leave_out(
		    m, place, "the file is so long that pgrab apply would not take it: split the source");
		cJSON_Delete(task);
		return false;
	}

	buf_adds(&numbered, cJSON_GetStringValue(key));
	for (first = keep_key(m, buf_str(&numbered), &is_new); !is_new;) {
		buf_reset(&numbered);
		buf_addf(&numbered, "%s-%d", cJSON_GetStringValue(key), first->next++);
		(void)keep_key(m, buf_str(&numbered), &is_new);
	}
	cJSON_SetValuestring(key, buf_str(&numbered));
	cJSON_AddItemToArray(m->tasks, task);
	cJSON_AddItemToArray(m->places, cJSON_CreateString(place));
	return true;
}

static bool
is_key_of(const cJSON *refused, const char *key)
{
	const cJSON *one;

	cJSON_ArrayForEach(one, refused)
	{
		if (strcmp(cJSON_GetStringValue(one), key) == 0)
			return true;
	}
	return false;
}

/* What a task may not be, whatever database it is for: one such task would keep the whole file from being
 * applied. */
static const char *
misfit_of(const cJSON *task)
{
	const char *command = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "command")),
		   *key = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "key"));
	const cJSON *args = cJSON_GetObjectItemCaseSensitive(task, "args");
	char *text = cJSON_PrintUnformatted(task);
	bool is_text = text != NULL && utf8_is_text(text);

	cJSON_free(text);
	if (!is_text)
		return "it is not UTF-8, and pgrab keeps nothing else";
	if (command == NULL || key == NULL)
		return NULL;
	if (command[strspn(command, " \t\r\n")] == '\0')
		return "its command is empty";
	if (strlen(command) > ARGS_MOST)
		return "its command is longer than 1 MiB: put it into a file";
	if (*key == '\0' || strlen(key) > 1000)
		return "its name is empty, or longer than 1000 bytes";
	if (length_of(args) > ARGS_MOST)
		return "its variables and its input are longer than 1 MiB: put them into a file";
	if (cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(args, "env")) > 1000 ||
	    cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(args, "argv")) > 1000)
		return "it has more than 1000 variables or arguments";
	return NULL;
}

/* Why pgrab apply would refuse it; NULL: it would not.  Of schedules only the database knows; *rc_out says
 * whether it can be asked. */
static const char *
fault_of(struct import *m, const cJSON *task, const cJSON *refused, enum rc *rc_out)
{
	const char *why = misfit_of(task);
	const cJSON *parent = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(task, "parents"), 0);
	const char *params[] = {cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "schedule")),
	    cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "timezone")), NULL, NULL, "skip"};

	if (why != NULL)
		return why;
	if (parent != NULL)
		return is_key_of(refused, cJSON_GetStringValue(parent)) ? "its parent is left out" : NULL;
	if (params[0] == NULL || *rc_out != RC_OK)
		return NULL;
	*rc_out = report_rows(cli_db(m->c, CLI_DEADLINE_US), "cli_next_check", 5, params, NULL, &m->c->err);
	if (*rc_out == RC_OK || strcmp(m->c->err.sqlstate, "22023") != 0)
		return NULL;
	*rc_out = RC_OK;
	return m->c->err.text;
}

/* Leaves out what pgrab apply would refuse.  Without a database the file is printed as it is, because it may
 * be for another machine; that is said. */
static void
check_all(struct import *m)
{
	cJSON *refused = cJSON_CreateArray();
	enum rc rc = RC_OK;
	bool asked = true;

	for (cJSON *task = m->tasks->child, *place = m->places->child, *next, *next_place; task != NULL;
	     task = next, place = next_place) {
		const char *key = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(task, "key"));
		const char *why = fault_of(m, task, refused, &rc);
		AUTO_BUF struct buf what = {0};

		next = task->next;
		next_place = place->next;
		if (rc != RC_OK && asked)
			import_note(m, "the schedules are not checked", m->c->err.text);
		asked = rc == RC_OK;
		if (why == NULL)
			continue;
		buf_addf(&what, "%s, task '%s',", cJSON_GetStringValue(place), key);
		import_leave_out(m, buf_str(&what), why);
		cJSON_AddItemToArray(refused, cJSON_CreateString(key));
		cJSON_Delete(cJSON_DetachItemViaPointer(m->tasks, task));
		cJSON_Delete(cJSON_DetachItemViaPointer(m->places, place));
	}
	cJSON_Delete(refused);
}

static int
give(struct cli *c, const struct options *o, char *file)
{
	enum rc rc;

	if (o->apply) {
		rc = cli_apply(c, file, NULL, false);
		return rc == RC_OK ? cli_apply_end(c, o->dry_run) : cli_fail(c, rc, NULL);
	}
	/* cJSON indents by tabs, and there are no other tabs: those in texts are escaped. */
	for (char *tab = file; (tab = strchr(tab, '\t')) != NULL;)
		*tab = ' ';
	text_put_json(file);
	return CLI_DONE;
}

static int
read_source(struct import *m, const char *word, const char *source)
{
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
		if (strcmp(readers[i].word, word) == 0)
			return readers[i].read(m, source);
	}
	return cli_usage(m->c->cmd, "it imports one of crontab, pg_cron, pg_timetable, systemd, ics");
}

static int
run_import(struct cli *c)
{
	const struct options *o = c->options;
	struct import m = {.c = c,
	    .timezone = o->timezone,
	    .database = o->database,
	    .role = o->role,
	    .user = o->user,
	    .calendar = o->calendar,
	    .system = o->system,
	    .tasks = cJSON_CreateArray(),
	    .places = cJSON_CreateArray()};
	cJSON *file = cJSON_CreateObject();
	char *printed;
	int code = read_source(&m, c->operands[0], c->operands[1]);

	if (code == CLI_DONE)
		check_all(&m);
	if (code == CLI_DONE && m.left_out > 0)
		fprintf(stderr, "pgrab import: tasks: %d, left out: %d\n", cJSON_GetArraySize(m.tasks),
		    m.left_out);
	cJSON_AddStringToObject(file, "source", o->source != NULL ? o->source : c->operands[0]);
	if (m.calendars != NULL)
		cJSON_AddItemToObject(file, "calendars", m.calendars);
	cJSON_AddItemToObject(file, "tasks", m.tasks);
	printed = cJSON_Print(file);
	if (code == CLI_DONE)
		code = give(c, o, printed);
	cJSON_free(printed);
	cJSON_Delete(file);
	import_forget(&m);
	return code == CLI_DONE && m.left_out > 0 ? CLI_FAILED : code;
}

const struct command cmd_import = {
    .name = "import",
    .group = GROUP_DO,
    .usage = "crontab|pg_cron|pg_timetable|systemd|ics SOURCE [OPTIONS]",
    .summary = "convert the jobs of another scheduler, or a file of holidays, into a file for pgrab apply",
    .details =
	"SOURCE is a file (crontab, ics), a database (pg_cron, pg_timetable) or a folder of units "
	"(systemd).\n"
	"  crontab -l | pgrab import crontab - --timezone Europe/Berlin > tasks.json\n"
	"  pgrab import pg_cron 'host=db dbname=postgres' --database app > tasks.json\n"
	"  pgrab import systemd /etc/systemd/system > tasks.json\n"
	"  pgrab import ics holidays.ics --calendar office --apply\n"
	"Jobs that have no counterpart are left out and named, and the exit status is 1. Nodes need --allow\n"
	"shell (and exec, if it sets SHELL) for a crontab, --allow exec for units. See docs/moving.md.",
    CLI_OPTIONS(keys),
    CLI_OPERANDS(2, 2),
    .exec = run_import,
};
