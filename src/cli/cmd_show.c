/* pgrab show */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/table.h"
#include "db/report.h"

static const struct option_key keys[] = {CLI_DSN_ROW, CLI_JSON_ROW, CLI_LAST_ROW};

static int
absent(struct cli *c)
{
	return cli_absent(c,
	    "there is no task %s, neither live nor in the history (nodes drop old history: `retention`)",
	    c->operands[0]);
}

static int
show_json(struct cli *c, const char *const *params)
{
	struct buf out = {0};
	PGresult *r = NULL;
	enum rc rc = report_objects(c->db, "cli_show", 1, params, &r, &c->err);

	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	if (PQntuples(r) == 0) {
		PQclear(r);
		return absent(c);
	}
	text_json(&out, db_text(r, 0, 0));
	fputs(buf_str(&out), stdout);
	buf_fini(&out);
	PQclear(r);
	return CLI_DONE;
}

static void
print_runs(struct buf *out, const PGresult *runs)
{
	struct screen screen = screen_look();

	if (PQntuples(runs) == 0)
		return;
	buf_addc(out, '\n');
	table_print(out, runs, &screen);
}

/* What the last run printed stands alone at the end, as it was. */
static void
print_output(struct buf *out, const PGresult *fields)
{
	for (int row = 0; row < PQntuples(fields); row++) {
		if (strcmp(db_text(fields, row, 0), "output") == 0 && *db_text(fields, row, 1) != '\0') {
			buf_adds(out, "\noutput of the last run:\n");
			text_block(out, db_text(fields, row, 1));
		}
	}
}

static int
show_text(struct cli *c, const char *const *params)
{
	static const char *const skip[] = {"output", "attempts", NULL};
	struct buf out = {0};
	PGresult *fields = NULL, *runs = NULL;
	int code = CLI_DONE;
	enum rc rc = report_fields(c->db, "cli_show", 1, params, &fields, &c->err);

	if (rc == RC_OK)
		rc = report_rows(c->db, "cli_show_runs", 1, params, &runs, &c->err);
	if (rc != RC_OK) {
		code = cli_fail(c, rc, NULL);
	} else if (PQntuples(fields) == 0) {
		code = absent(c);
	} else {
		fields_print(&out, fields, skip);
		print_runs(&out, runs);
		print_output(&out, fields);
		fputs(buf_str(&out), stdout);
	}
	buf_fini(&out);
	PQclear(fields);
	PQclear(runs);
	return code;
}

static int
run_show(struct cli *c)
{
	const char *params[] = {c->operands[0]};

	if (!cli_id(c, c->operands[0]))
		return cli_usage(c->cmd, c->err.text);
	cli_db(c, CLI_DEADLINE_US);
	return c->common->json ? show_json(c, params) : show_text(c, params);
}

const struct command cmd_show = {
    .name = "show",
    .group = GROUP_LOOK,
    .usage = "ID [OPTIONS]",
    .summary = "everything about one task: definition, attempts, output, why it does not run",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    .min_operands = 1,
    .max_operands = 1,
    .exec = run_show,
};
