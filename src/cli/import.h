/* Other people's schedules as tasks for pgrab apply.  Each source is one file; what has no counterpart is
 * left out, named and counted, and the rest is imported. */
#pragma once

#include <stdbool.h>

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "cli/cli.h"

struct import {
	struct cli *c;
	const char *timezone, *database, *role, *user, *calendar; /* options; NULL when not given */
	bool system;
	cJSON *tasks, *places; /* places: for each task, where it was read */
	void *keys;            /* those taken, a tree */
	cJSON *calendars;      /* NULL: none */
	size_t length;         /* of the tasks, as JSON */
	int left_out;
};

/* "pgrab import: WHAT is left out: WHY", and it is counted. */
void import_leave_out(struct import *m, const char *what, const char *why);
/* Notes something that does not keep it from being imported. */
void import_note(struct import *m, const char *what, const char *note);

/* Takes the task; a key that exists already gets a number.  Where the source says nothing else, it does
 * what all the sources do: one attempt, no timeout to speak of, and no fire left out because all workers are
 * busy.  False: there are too many, and it is left out. */
bool import_add(struct import *m, cJSON *task, const char *place);

/* Frees what was kept beside the tasks. */
void import_forget(struct import *m);

/* Each reads one source.  Returns CLI_DONE, or the code of what it has reported. */
int import_crontab(struct import *m, const char *path);
int import_pg_cron(struct import *m, const char *dsn);
int import_pg_timetable(struct import *m, const char *dsn);
int import_systemd(struct import *m, const char *folder);
int import_ics(struct import *m, const char *path);

/* The fields of a line of a crontab, or its @word, as a schedule; what then means something else is noted.  A
 * minus before the first, which tells cronie not to log, is dropped. */
void
import_fields(struct import *m, const char *place, const char *fields, const char *command, struct buf *out);

/* A calendar expression of systemd as a schedule, and the time zone that it names ("": none).
 * False: *why says what has no counterpart. */
#define IMPORT_SCHEDULE_SIZE 256
bool import_calendar(const char *text, char schedule[IMPORT_SCHEDULE_SIZE], char zone[64], const char **why);
