/* pgrab apply, export: tasks as a file.  The file is applied in one transaction, and its changes are read
 * inside that; so a dry run is the real run, rolled back. */
#include <string.h>

#include <cjson/cJSON.h>

#include "cli/commands.h"

struct options {
	struct cli_common common;
	char *source;
	bool dry_run, prune;
};

static const struct option_key apply_keys[] = {
    CLI_COMMON_ROWS,
    CLI_FLAG_ROW(dry_run, 'n', "show what would change, and change nothing"),
    CLI_TEXT_ROW(source, 0, "SOURCE", "source of the tasks of a JSON file (default: as the file says)"),
    CLI_FLAG_ROW(prune, 0, "delete tasks of this source that the JSON file does not contain"),
    CLI_LAST_ROW,
};

/* What EXECUTE says of a statement that ends the transaction: a dry run must not commit. */
#define FEATURE_NOT_SUPPORTED "0A000"

/* Of tasks of a file that are refused: pgrab.apply() says a line of each. */
static void
print_notice(void *arg, const PGresult *r)
{
	const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE),
		   *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY),
		   *hint = PQresultErrorField(r, PG_DIAG_MESSAGE_HINT);
	struct cli *c = arg;

	if (text != NULL && state != NULL && strcmp(state, "00000") == 0)
		(void)cli_failed(c, "%s%s%s", text, hint != NULL ? ". " : "", hint != NULL ? hint : "");
}

/* False: the text is no JSON, and it was said where. */
static bool
is_json(struct cli *c, const char *path, const char *text)
{
	const char *end = text;
	cJSON *file = cJSON_ParseWithOpts(text, &end, true);
	int line = 1, column = 1;

	if (file != NULL) {
		cJSON_Delete(file);
		return true;
	}
	for (const char *p = text; p < end; p++) {
		column = *p == '\n' ? 1 : column + 1;
		line += *p == '\n';
	}
	(void)cli_failed(c, "%s, line %d, column %d: it is not JSON here: %.*s", path, line, column,
	    (int)(*end == '\0' ? 7 : strcspn(end, "\n")), *end == '\0' ? "it ends" : end);
	return false;
}

static enum rc
apply_sql(struct db *db, const char *text, struct err *err)
{
	enum rc rc = report_rows(db, "sql_run", 1, &text, NULL, err);

	if (rc != RC_OK && strcmp(err->sqlstate, FEATURE_NOT_SUPPORTED) == 0 &&
	    strstr(err->text, "EXECUTE of transaction") != NULL)
		err_prefix(err, "the file is one transaction: leave out BEGIN, COMMIT and the like");
	return rc;
}

enum rc
cli_apply(struct cli *c, const char *text, const char *source, bool prune)
{
	struct db *db = cli_db(c, CLI_DEADLINE_US);
	const char *first = text + strspn(text, " \t\r\n"), *params[] = {text, source, prune ? "t" : "f"};
	enum rc rc = db_script(db, "begin", &c->err);

	if (rc == RC_OK)
		rc = report_rows(db, "cli_apply_before", 0, NULL, NULL, &c->err);
	if (rc == RC_OK)
		PQsetNoticeReceiver(db_conn(db), print_notice, c);
	if (rc == RC_OK && (*first == '{' || *first == '['))
		rc = report_rows(db, "cli_apply_json", 3, params, NULL, &c->err);
	else if (rc == RC_OK)
		rc = apply_sql(db, text, &c->err);
	return rc;
}

int
cli_apply_end(struct cli *c, bool dry_run)
{
	int code = cli_list(c, "cli_apply_diff", 0, NULL, "Nothing changes.");
	enum rc rc;

	if (code != CLI_DONE)
		return code;
	rc = db_script(c->db, dry_run ? "rollback" : "commit", &c->err);
	return rc == RC_OK ? CLI_DONE : cli_fail(c, rc, NULL);
}

static int
run_apply(struct cli *c)
{
	const struct options *o = c->options;
	AUTO_BUF struct buf text = {0};
	int code = cli_read_file(c, c->operands[0], &text);
	enum rc rc;
	char first;

	first = buf_str(&text)[strspn(buf_str(&text), " \t\r\n")];
	if (code == CLI_DONE && first != '{' && first != '[' && (o->source != NULL || o->prune))
		return cli_usage(c->cmd, "--source and --prune are for JSON files");
	if (code == CLI_DONE && (first == '{' || first == '[') && !is_json(c, c->operands[0], buf_str(&text)))
		code = CLI_FAILED;
	if (code == CLI_DONE) {
		rc = cli_apply(c, buf_str(&text), o->source, o->prune);
		code = rc == RC_OK ? cli_apply_end(c, o->dry_run) : cli_fail(c, rc, c->operands[0]);
	}
	return code;
}

const struct command cmd_apply = {
    .name = "apply",
    .group = GROUP_DO,
    .usage = "FILE [OPTIONS]",
    .summary = "make the tasks match a file, JSON or SQL, and show the changes",
    .details =
	"A JSON file is what pgrab export prints: {\"source\": \"etl\", \"tasks\": [{\"key\": \"nightly\", "
	"...}]};\n"
	"applying it again changes nothing. An SQL file has statements such as insert ... on conflict (key)\n"
	"do update. Either is one transaction, so without BEGIN and COMMIT. - is the standard input.",
    CLI_OPTIONS(apply_keys),
    CLI_OPERANDS(1, 1),
    .exec = run_apply,
};

static const struct option_key export_keys[] = {
    CLI_DSN_ROW,
    CLI_TEXT_ROW(source, 0, "SOURCE", "only the tasks of this source"),
    CLI_LAST_ROW,
};

static int
run_export(struct cli *c)
{
	const struct options *o = c->options;
	const char *params[] = {o->source};
	AUTO_CLEAR PGresult *r = NULL;
	int code = cli_rows(c, "cli_export", 1, params, &r);

	if (code == CLI_DONE)
		text_put_json(db_text(r, 0, 0));
	return code;
}

const struct command cmd_export = {
    .name = "export",
    .group = GROUP_DO,
    .usage = "[OPTIONS]",
    .summary = "print the live tasks and the limits as a JSON file for pgrab apply",
    CLI_OPTIONS(export_keys),
    .in_utc = true,
    .exec = run_export,
};
