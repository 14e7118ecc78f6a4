/*
 * pgrab(7): the tables, views and functions, as the COMMENTs of the embedded schema describe them.  The texts
 * are our own, so only the form that they are written in is read here:
 *
 *   comment on column pgrab.task.key is
 *     'one text' 'or several'
 *     'on several lines';
 */
#include <string.h>

#include "cli/manual.h"
#include "db/sql.h"

/* The literals up to the semicolon, without their quotes. */
static void
read_text(const char *p, struct buf *text)
{
	for (; *p != ';' && *p != '\0'; p++) {
		if (*p != '\'')
			continue;
		for (p++; *p != '\0' && (*p != '\'' || p[1] == '\''); p++) {
			buf_addc(text, *p);
			p += *p == '\'' ? 1 : 0;
		}
	}
}

/* Called for each comment; name is that of the object, "pgrab.task.key" or "pgrab.retry(bigint)". */
typedef void (*comment_fn)(struct buf *out, const char *name, const char *text);

/* After "comment on KIND ": the name goes up to " is". */
static void
take_comment(struct buf *out, const char *p, comment_fn put)
{
	const char *is = strstr(p, " is");
	AUTO_BUF struct buf name = {0}, text = {0};

	if (is == NULL || strncmp(p, "pgrab.", 6) != 0)
		return;
	for (; p < is; p++) {
		if (*p != '\n')
			buf_addc(&name, *p);
	}
	read_text(is + 3, &text);
	put(out, buf_str(&name), buf_str(&text));
}

static void
each_comment(struct buf *out, const struct sql_file *files, const char *kind, comment_fn put)
{
	AUTO_BUF struct buf head = {0};

	buf_addf(&head, "\ncomment on %s ", kind);
	for (const struct sql_file *f = files; f->name != NULL; f++) {
		for (const char *p = f->text; (p = strstr(p, buf_str(&head))) != NULL;) {
			p += head.len;
			take_comment(out, p, put);
		}
	}
}

static void
put_object(struct buf *out, const char *name, const char *text)
{
	manual_item(out, name, NULL, text);
}

static void
put_table(struct buf *out, const char *name, const char *text)
{
	if (strncmp(text, "Internal:", strlen("Internal:")) != 0)
		put_object(out, name, text);
}

static bool
is_task_column(const char *name)
{
	return strncmp(name, "pgrab.task.", strlen("pgrab.task.")) == 0;
}

static void
put_own_column(struct buf *out, const char *name, const char *text)
{
	if (is_task_column(name) && strncmp(text, "System:", 7) != 0)
		manual_item(out, name + strlen("pgrab.task."), NULL, text);
}

static void
put_system_column(struct buf *out, const char *name, const char *text)
{
	if (is_task_column(name) && strncmp(text, "System:", 7) == 0)
		manual_item(out, name + strlen("pgrab.task."), NULL, text + strlen("System: "));
}

void
manual_sql(struct buf *out)
{
	manual_head(out, "PGRAB", "7", "pgrab", "the SQL interface of the task scheduler");
	manual_section(out, "DESCRIPTION");
	manual_text(out, "`pgrab migrate` creates the schema pgrab. Insert into pgrab.task to plan a task, "
			 "update or delete its row to change it, read the views to see what happens, call "
			 "the functions to control tasks. Everything works inside your own transaction and "
			 "with your own rights. In psql, \\d+ shows what this page says.");
	manual_section(out, "COLUMNS OF A TASK");
	each_comment(out, sql_migrations, "column", put_own_column);
	manual_section(out, "COLUMNS THE SYSTEM KEEPS");
	manual_text(out, "Values given for these on INSERT are ignored.");
	each_comment(out, sql_migrations, "column", put_system_column);
	manual_section(out, "VIEWS");
	each_comment(out, sql_api, "view", put_object);
	manual_section(out, "FUNCTIONS");
	each_comment(out, sql_api, "function", put_object);
	manual_section(out, "TABLES");
	each_comment(out, sql_migrations, "table", put_table);
	manual_see_also(out, ".BR pgrab (1),\n.BR pgrab.conf (5),\n.BR psql (1)");
}
