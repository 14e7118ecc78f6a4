/* Errors: what was being done, what went wrong, what to do about it.  Never with a password. */
#include <stdarg.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/commands.h"
#include "db/fault.h"
#include "db/migrate.h"
#include "db/schema.h"

static void
complain(const struct command *cmd, const char *text)
{
	AUTO_BUF struct buf line = {0};

	if (cmd != NULL)
		buf_addf(&line, "pgrab %s: ", cmd->name);
	else
		buf_adds(&line, "pgrab: ");
	text_line(&line, text);
	/* Colon, text, newline in one write, whatever the buffering. */
	buf_addc(&line, '\n');
	fputs(buf_str(&line), stderr);
}

int
cli_usage(const struct command *cmd, const char *text)
{
	complain(cmd, text);
	fprintf(stderr, "Try: pgrab %s%s--help\n", cmd != NULL ? cmd->name : "", cmd != NULL ? " " : "");
	return CLI_USAGE;
}

int
cli_say(struct cli *c, enum cli_exit code, const char *fmt, ...)
{
	AUTO_FREE char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	xgiven(vasprintf(&text, fmt, ap) < 0 ? NULL : text);
	va_end(ap);
	complain(c->cmd, text);
	return code;
}

/* keyword='value', as libpq reads it. */
static void
put_keyword(struct buf *out, const char *keyword, const char *value)
{
	bool quote = *value == '\0' || strpbrk(value, " \t\n'\\") != NULL;

	buf_addf(out, "%s%s=%s", out->len > 0 ? " " : "", keyword, quote ? "'" : "");
	for (; *value != '\0'; value++) {
		if (*value == '\'' || *value == '\\')
			buf_addc(out, '\\');
		buf_addc(out, *value);
	}
	buf_adds(out, quote ? "'" : "");
}

/* 'text', as a shell reads it. */
static void
put_shell_word(struct buf *out, const char *text)
{
	buf_addc(out, '\'');
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *text);
	}
	buf_addc(out, '\'');
}

/* " --dsn '...'" as the user gave it, without secrets; nothing when it came from libpq's environment. */
static void
put_dsn(struct buf *out, const char *dsn)
{
	PQconninfoOption *all = dsn == NULL ? NULL : PQconninfoParse(dsn, NULL);
	AUTO_BUF struct buf words = {0};

	for (PQconninfoOption *o = all; o != NULL && o->keyword != NULL; o++) {
		/* dispchar says which ones a form would hide: passwords ("*"). */
		if (o->val != NULL && o->dispchar[0] != '*')
			put_keyword(&words, o->keyword, o->val);
	}
	if (words.len > 0) {
		buf_adds(out, " --dsn ");
		put_shell_word(out, buf_str(&words));
	}
	PQconninfoFree(all);
}

static const char *
database_name(struct cli *c)
{
	PGconn *conn = db_conn(c->db);

	return conn == NULL ? "?" : PQdb(conn);
}

/* Something of ours is missing: is it the whole schema, or is its version wrong?  True: neither.  In a
 * transaction that has failed nothing can be read, so it ends. */
static bool
explain_schema(struct cli *c, struct buf *out)
{
	struct schema_status st;
	struct err ignored;
	const char *what = NULL;

	(void)!db_script(c->db, "rollback", &ignored);
	if (schema_status_read(c->db, &st, &ignored) != RC_OK)
		return false;
	if (st.state == SCHEMA_NONE)
		what = "not installed";
	else if (st.state == SCHEMA_OLD)
		what = "older than this program, or its tables have other columns,";
	else if (st.state == SCHEMA_TOO_NEW || st.state == SCHEMA_NEWER)
		buf_addf(out,
		    "the schema %s in database %s is newer than this program (version %d, known %d); "
		    "upgrade the program",
		    schema_name(), database_name(c), st.installed, st.known);
	if (what != NULL) {
		buf_addf(out, "the schema %s is %s in database %s; run: pgrab migrate%s", schema_name(), what,
		    database_name(c), schema_flag());
		put_dsn(out, c->common->dsn);
	}
	return out->len == 0;
}

int
cli_fail(struct cli *c, enum rc rc, const char *doing)
{
	const char *advice = fault_advice(rc, &c->err);
	AUTO_BUF struct buf text = {0};

	/* While it is migrated, what is missing is no old schema.  If the schema is as it should be, then a
	 * text of the user's names what is not there. */
	if (fault_no_schema(&c->err) && c->cmd != &cmd_migrate && explain_schema(c, &text))
		advice = NULL;
	if (text.len == 0) {
		buf_addf(&text, "%s%s%s", doing != NULL ? doing : "", doing != NULL ? ": " : "", c->err.text);
		if (advice != NULL)
			buf_addf(&text, ". %s", advice);
		else if (strncmp(c->err.text, "could not connect", 17) == 0 && c->common->dsn == NULL)
			buf_adds(&text, "; name the database with --dsn, PGRAB_DSN, or PGHOST, PGPORT, "
					"PGDATABASE, PGUSER");
	}
	complain(c->cmd, buf_str(&text));
	return strcmp(c->err.sqlstate, "P0002") == 0 ? CLI_ABSENT
						     : CLI_FAILED; /* P0002: our functions' "no such task" */
}
