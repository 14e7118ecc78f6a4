/* pgrab import pg_cron and pg_timetable: their tables, read in place.  The text of src/db/sql decides what
 * becomes of a row; its columns: what it is, why it is left out, what to note, and its tasks as a JSON
 * array. */

#include "cli/cli.h"
#include "cli/import.h"
#include "db/report.h"

enum { WHAT, LEFT_OUT, NOTE, TASKS };

static void
take_row(struct import *m, const PGresult *r, int row)
{
	const char *what = db_text(r, row, WHAT);
	cJSON *tasks, *task;

	if (!PQgetisnull(r, row, LEFT_OUT)) {
		import_leave_out(m, what, db_text(r, row, LEFT_OUT));
		return;
	}
	if (*db_text(r, row, NOTE) != '\0')
		import_note(m, what, db_text(r, row, NOTE));
	tasks = cJSON_Parse(db_text(r, row, TASKS));
	while ((task = cJSON_DetachItemFromArray(tasks, 0)) != NULL)
		(void)import_add(m, task, what);
	cJSON_Delete(tasks);
}

static int
import_from(struct import *m, const char *dsn, const char *sql, int n_params, const char *what)
{
	AUTO_DB struct db *db = db_create(dsn, "pgrab import", CLI_DEADLINE_US);
	const char *params[] = {m->timezone, m->database, m->role};
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = report_rows(db, sql, n_params, params, &r, &m->c->err);
	int code = CLI_DONE;

	if (rc != RC_OK)
		code = cli_failed(m->c, "%s: %s", what, m->c->err.text);
	for (int i = 0; rc == RC_OK && i < PQntuples(r); i++)
		take_row(m, r, i);
	return code;
}

int
import_pg_cron(struct import *m, const char *dsn)
{
	return import_from(m, dsn, "import_pg_cron", 3, "could not read cron.job");
}

int
import_pg_timetable(struct import *m, const char *dsn)
{
	return import_from(
	    m, dsn, "import_pg_timetable", 1, "could not read timetable.chain and timetable.task");
}
