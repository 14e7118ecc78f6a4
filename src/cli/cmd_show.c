/* pgrab show */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/spark.h"
#include "cli/table.h"

#define SPARK_COLUMNS 60

/* A table, unless it has no rows; *n_out: how many. */
static enum rc
print_table(struct cli *c, struct buf *out, const char *sql, const char *param, int *n_out)
{
	struct screen screen = screen_look();
	AUTO_CLEAR PGresult *rows = NULL;
	enum rc rc = report_rows(c->db, sql, 1, &param, &rows, &c->err);

	*n_out = rc == RC_OK ? PQntuples(rows) : 0;
	if (*n_out > 0) {
		buf_addc(out, '\n');
		table_print(out, rows, &screen);
	}
	return rc;
}

/* The text of a field, or NULL. */
static const char *
field(const PGresult *fields, const char *name)
{
	for (int row = 0; row < PQntuples(fields); row++) {
		if (strcmp(db_text(fields, row, 0), name) == 0)
			return db_text(fields, row, 1);
	}
	return NULL;
}

/* The output of the last run comes at the end by itself, as it was. */
static void
print_output(struct buf *out, const PGresult *fields)
{
	const char *output = field(fields, "output");

	if (output != NULL && *output != '\0') {
		buf_adds(out, "\noutput of the last run:\n");
		text_block(out, output);
	}
}

/* Of very many attempts only the last hundred are shown. */
static void
print_before(struct buf *out, const PGresult *fields, int shown)
{
	const char *runs = field(fields, "runs");
	long long all = runs != NULL ? strtoll(runs, NULL, 10) : 0;

	if (shown == 100 && all > shown)
		buf_addf(out, "... and %lld before these: pgrab runs --task %s\n", all - shown,
		    field(fields, "id"));
}

/* A line of the last runs, the newest at the right. */
static void
print_spark(struct buf *out, const PGresult *runs, const char *column, const char *label)
{
	AUTO_BUF struct buf line = {0};
	double most = spark_put(&line, runs, PQfnumber(runs, column), SPARK_COLUMNS, true);

	if (PQntuples(runs) > 1 && most > 0)
		buf_addf(out, "%s %s  up to %.3g s\n", label, buf_str(&line), most);
}

static enum rc
print_sparks(struct cli *c, struct buf *out, const char *id)
{
	const char *params[] = {id, "60"};
	AUTO_CLEAR PGresult *runs = NULL;
	enum rc rc = report_rows(c->db, "serve_task_runs", 2, params, &runs, &c->err);

	if (rc == RC_OK && PQntuples(runs) > 1) {
		buf_addc(out, '\n');
		print_spark(out, runs, "seconds", "took");
		print_spark(out, runs, "waited", "late");
	}
	return rc;
}

static enum rc
print_parts(struct cli *c, struct buf *out, const char *id, const PGresult *fields)
{
	static const char *const skip[] = {"output", "attempts", "chain", "steps", NULL};
	enum rc rc;
	int n;

	fields_print(out, fields, skip);
	/* Of a task in no chain the array is empty. */
	rc = print_table(c, out, "cli_show_chain", field(fields, "chain"), &n);
	if (rc == RC_OK)
		rc = print_table(c, out, "cli_show_steps", id, &n);
	if (rc == RC_OK)
		rc = print_table(c, out, "cli_show_runs", id, &n);
	if (rc == RC_OK) {
		print_before(out, fields, n);
		rc = print_sparks(c, out, id);
	}
	if (rc == RC_OK)
		print_output(out, fields);
	return rc;
}

static int
show_text(struct cli *c, const char *const *params)
{
	AUTO_BUF struct buf out = {0};
	AUTO_CLEAR PGresult *fields = NULL;
	int code = CLI_DONE;
	enum rc rc = report_fields(c->db, "cli_show", 1, params, &fields, &c->err);

	if (rc == RC_OK)
		rc = print_parts(c, &out, params[0], fields);
	if (rc == RC_OK)
		fputs(buf_str(&out), stdout);
	else
		code = cli_fail(c, rc, NULL);
	return code;
}

static int
run_show(struct cli *c)
{
	char id[CLI_ID_SIZE];
	const char *params[] = {id};
	int code = cli_task_id(c, c->operands[0], id);
	enum rc rc;

	if (code != CLI_DONE)
		return code;
	/* Our sessions have hash joins off (see db/pg_session.c); without them the time to draw a chain grows
	 * with the square of its length. */
	rc = db_script(cli_db(c, CLI_DEADLINE_US), "set enable_hashjoin = on", &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	return c->common->json ? cli_object(c, "cli_show", 1, params) : show_text(c, params);
}

const struct command cmd_show = {
    .name = "show",
    .group = GROUP_LOOK,
    .usage = "TASK [OPTIONS]",
    .summary = "show all about one task: definition, attempts, output, chain, why it is not running",
    CLI_ONLY_COMMON,
    CLI_OPERANDS(1, 1),
    .exec = run_show,
};
