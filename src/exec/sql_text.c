#include "exec/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "db/schema.h"
#include "db/sql_split.h"

#define STATEMENTS_MAX 1000
#define PART_MAX       240 /* bytes of DETAIL, HINT and CONTEXT each */

static void
take_args(const struct pgrab_run *run, struct sql_text *t)
{
	t->param = xcalloc(run->n_args + 1, sizeof *t->param);
	t->transaction = true;
	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "params") == 0)
			t->param[t->n_params++] = run->args[i].value;
		else if (strcmp(run->args[i].key, "params:null") == 0)
			t->param[t->n_params++] = NULL;
		else if (strcmp(run->args[i].key, "transaction") == 0)
			t->transaction = strcmp(run->args[i].value, "false") != 0;
		else if (strcmp(run->args[i].key, "signal") == 0)
			t->signal = run->args[i].value;
	}
}

/* What came with its signal is $1 of a text that has no other parameters and names it. */
static void
take_signal(struct sql_text *t)
{
	if (t->signal == NULL || t->n_params > 0 || t->n != 1 || !sql_has_param(t->statement[0]))
		return;
	t->param[t->n_params++] = strcmp(t->signal, "null") == 0 ? NULL : t->signal;
}

static void
take_statements(const char *command, struct sql_text *t)
{
	AUTO_FREE struct sql_part *part = xcalloc(STATEMENTS_MAX, sizeof *part);
	size_t n = sql_split(command, part, STATEMENTS_MAX);

	t->n = n;
	if (n <= STATEMENTS_MAX) {
		t->statement = xcalloc(n + 1, sizeof *t->statement);
		for (size_t i = 0; i < n; i++) {
			size_t blank = strspn(part[i].start, " \t\r\n");

			t->statement[i] = xmemdup0(part[i].start + blank, part[i].len - blank);
		}
	}
}

static bool
take(const char *command, struct sql_text *out, struct pgrab_result *result)
{
	take_statements(command, out);
	take_signal(out);
	if (out->n == 0)
		snprintf(result->error, sizeof result->error, "the command holds no SQL statement");
	else if (out->n > STATEMENTS_MAX)
		snprintf(result->error, sizeof result->error,
		    "the command holds more than %d statements; put them in a procedure", STATEMENTS_MAX);
	else if (out->n > 1 && out->n_params > 0)
		snprintf(result->error, sizeof result->error,
		    "args.params goes with exactly one statement; this command holds %zu", out->n);
	else if (out->n > 1 && !out->transaction)
		snprintf(result->error, sizeof result->error,
		    "args.transaction = false goes with exactly one statement; this command holds %zu",
		    out->n);
	return result->error[0] == '\0';
}

bool
sql_text_take(const struct pgrab_run *run, struct sql_text *out, struct pgrab_result *result)
{
	*out = (struct sql_text){0};
	take_args(run, out);
	return take(run->command, out, result);
}

bool
sql_text_of_step(const char *command, struct sql_text *out, struct pgrab_result *result)
{
	*out = (struct sql_text){.transaction = true};
	return take(command, out, result);
}

void
sql_text_fini(struct sql_text *t)
{
	for (size_t i = 0; t->statement != NULL && i < t->n; i++)
		free(t->statement[i]);
	free(t->statement);
	free(t->param);
	*t = (struct sql_text){0};
}

bool
sql_is_plain(const char *statement)
{
	static const char *const plain[] = {
	    "select", "insert", "update", "delete", "with", "values", "table", "merge"};
	size_t word = strspn(statement, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		if (strlen(plain[i]) == word && strncasecmp(statement, plain[i], word) == 0)
			return true;
	}
	return false;
}

static void
add_part(struct buf *b, const char *what, const char *text, size_t len)
{
	if (text == NULL || len == 0)
		return;
	buf_addf(b, ". %s: %.*s%s", what, (int)(len < PART_MAX ? len : PART_MAX), text,
	    len > PART_MAX ? "..." : "");
}

/* How much of the context is not about our own functions, which call the text, nor the line before them,
 * which is the text itself. */
static size_t
context_of_text(const char *context)
{
	char name[SCHEMA_NAME_MAX + 40];
	const char *ours, *last;

	snprintf(name, sizeof name, "PL/pgSQL function %s_sql.", schema_name());
	ours = strstr(context, name);
	if (ours == NULL)
		return strlen(context);
	last = strncmp(context, "SQL statement \"", 15) == 0 ? context : NULL;
	for (const char *p = context; (p = strstr(p, "\nSQL statement \"")) != NULL && p < ours; p++)
		last = p;
	return (size_t)((last != NULL ? last : ours) - context);
}

#define OUTSIDE "args.transaction = false runs one statement outside of a transaction, at least once"

/* What a task may not do, where PostgreSQL's own message does not say what to do instead. */
static const char *
refused(const char *text, const char *sqlstate)
{
	if (strstr(text, "EXECUTE of transaction commands") != NULL || strcmp(sqlstate, "2D000") == 0)
		return "COMMIT, ROLLBACK and SAVEPOINT are refused in a plain sql task: its text, the fence "
		       "check and the finish are one transaction; " OUTSIDE;
	if (strstr(text, "cannot COPY to/from client") != NULL)
		return "COPY from or to the client is refused in a task: there is no client; use INSERT or a "
		       "file";
	return NULL;
}

void
sql_text_why(const struct sql_text *t, size_t number, const PGresult *res, const struct err *err,
    struct pgrab_result *result)
{
	const char *instead = refused(err->text, err->sqlstate);
	AUTO_BUF struct buf b = {0};

	buf_adds(&b, instead != NULL ? instead : err->text);
	if (instead == NULL && res != NULL) {
		const char *detail = PQresultErrorField(res, PG_DIAG_MESSAGE_DETAIL);
		const char *context = PQresultErrorField(res, PG_DIAG_CONTEXT);

		add_part(&b, "DETAIL", detail, detail == NULL ? 0 : strlen(detail));
		add_part(&b, "CONTEXT", context, context == NULL ? 0 : context_of_text(context));
	}
	if (t->transaction && strcmp(err->sqlstate, "25001") == 0 && strstr(err->text, "cannot ") != NULL)
		buf_adds(&b, "; " OUTSIDE);
	if (number > 0 && t->n > 1)
		buf_addf(&b, " (statement %zu of %zu, SQLSTATE %s)", number, t->n, err->sqlstate);
	else if (err->sqlstate[0] != '\0')
		buf_addf(&b, " (SQLSTATE %s)", err->sqlstate);
	snprintf(result->error, sizeof result->error, "%s", buf_str(&b));
}
