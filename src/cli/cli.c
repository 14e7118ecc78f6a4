/*
 * From argv to a row of the command table, its options and its exit code.
 *
 * SIGPIPE is ignored: a migration does not die because the pager it reports to was closed.  Output is
 * checked once, at the end.
 */
#include "cli/cli.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "cli/table.h"
#include "db/report.h"
#include "db/schema.h"

#define OPERANDS_MAX    100
#define LIST_PARAMS_MAX 16

const struct option_key cli_common_keys[] = {CLI_COMMON_ROWS, CLI_LAST_ROW};

const struct command *
cli_find(const char *name)
{
	for (const struct command *const *c = cli_commands; *c != NULL; c++) {
		if (strcmp((*c)->name, name) == 0 || ((*c)->alias != NULL && strcmp((*c)->alias, name) == 0))
			return *c;
	}
	return NULL;
}

/* The caller's time zone, as PostgreSQL names it; NULL: UTC. */
static const char *
caller_zone(char *buf, size_t size)
{
	const char *zone = getenv("PGTZ");
	ssize_t n;

	if (zone == NULL || *zone == '\0')
		zone = getenv("TZ");
	if (zone == NULL || *zone == '\0') {
		n = readlink("/etc/localtime", buf, size - 1);
		buf[n > 0 ? n : 0] = '\0';
		zone = strstr(buf, "/zoneinfo/");
		zone = zone == NULL ? "" : zone + strlen("/zoneinfo/");
	}
	zone += *zone == ':' ? 1 : 0;
	return *zone == '\0' || strcmp(zone, "UTC") == 0 || strcmp(zone, "Etc/UTC") == 0 ? NULL : zone;
}

struct db *
cli_db(struct cli *c, int64_t deadline_us)
{
	char app[64], zone_buf[256];
	const char *zone;

	if (c->db == NULL) {
		snprintf(app, sizeof app, "pgrab %s", c->cmd->name);
		c->db = db_create(c->common->dsn, app, deadline_us);
		zone = caller_zone(zone_buf, sizeof zone_buf);
		if (zone != NULL && !c->common->utc && !c->common->json && !c->cmd->in_utc)
			db_zone(c->db, zone);
	}
	return c->db;
}

/* max: rows to print; the result may hold more.  whole: the rows of a table whose lines are not cut; NULL:
 * they are. */
static int
list(struct cli *c, const char *sql, int n_params, const char *const *params, int64_t max,
    const char *nothing, PGresult **whole)
{
	struct screen screen = screen_look();
	struct db *db = cli_db(c, CLI_DEADLINE_US);
	struct buf out = {0};
	PGresult *r = NULL;
	enum rc rc;

	rc = report_ask(db, c->common->json ? REPORT_ARRAY : REPORT_ROWS, sql, n_params, params, &r, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	if (whole != NULL)
		screen.columns = 0;
	if (c->common->json)
		text_json(&out, db_text(r, 0, 0));
	else if (PQntuples(r) == 0)
		buf_addf(&out, "%s\n", nothing);
	else
		table_print_some(&out, r, max, &screen);
	if (!c->common->json && PQntuples(r) > max)
		buf_addf(&out, "... and more: --limit N shows more than %lld\n", (long long)max);
	if (c->cmd->also != NULL && !c->common->json && isatty(STDOUT_FILENO))
		buf_addf(&out, "%s\n", c->cmd->also);
	text_put(&out);
	if (whole != NULL && !c->common->json)
		*whole = r;
	else
		PQclear(r);
	return CLI_DONE;
}

int
cli_list(struct cli *c, const char *sql, int n_params, const char *const *params, const char *nothing)
{
	return list(c, sql, n_params, params, INT64_MAX, nothing, NULL);
}

PGresult *
cli_list_whole(struct cli *c, const char *sql, int n_params, const char *const *params, int *code_out)
{
	PGresult *r = NULL;

	*code_out = list(c, sql, n_params, params, INT64_MAX, "", &r);
	return r;
}

int
cli_list_some(struct cli *c, const char *sql, int n_params, const char *const *params, int64_t limit,
    const char *nothing)
{
	const char *all[LIST_PARAMS_MAX];

	assert(n_params < LIST_PARAMS_MAX);
	for (int i = 0; i < n_params; i++)
		all[i] = params[i];
	/* One more than is shown tells whether there are more. */
	all[n_params] = NUMBER(limit + (c->common->json ? 0 : 1));
	return list(c, sql, n_params + 1, all, limit, nothing, NULL);
}

const char *
cli_time(const char *given, struct cli_time *t)
{
	int64_t us;

	if (given == NULL || !duration_parse(given, &us))
		return given;
	snprintf(t->text, sizeof t->text, "%lld us", (long long)us);
	return t->text;
}

int
cli_rows(struct cli *c, const char *sql, int n_params, const char *const *params, PGresult **out)
{
	enum rc rc = report_rows(cli_db(c, CLI_DEADLINE_US), sql, n_params, params, out, &c->err);

	return rc == RC_OK ? CLI_DONE : cli_fail(c, rc, NULL);
}

int
cli_object(struct cli *c, const char *sql, int n_params, const char *const *params)
{
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = report_objects(cli_db(c, CLI_DEADLINE_US), sql, n_params, params, &r, &c->err);

	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	text_put_json(db_text(r, 0, 0));
	return CLI_DONE;
}

int
cli_found(struct cli *c, const char *sql, const char *what, const char *name)
{
	AUTO_CLEAR PGresult *r = NULL;
	int code = cli_rows(c, sql, 1, &name, &r);

	if (code == CLI_DONE && PQntuples(r) == 0)
		code = cli_absent(c, "there is no %s \"%.100s\"", what, name);
	return code;
}

int
cli_task_id(struct cli *c, const char *text, char id[CLI_ID_SIZE])
{
	AUTO_CLEAR PGresult *r = NULL;
	int code = cli_rows(c, "cli_id", 1, &text, &r);

	if (code == CLI_DONE)
		snprintf(id, CLI_ID_SIZE, "%s", db_text(r, 0, 0));
	return code;
}

/* Takes every `--repeat VALUE` and `--repeat=VALUE` out of argv, because the table's readers keep only the
 * last one.  Returns the new argc. */
static int
take_repeated(struct cli *c, int argc, char **argv)
{
	size_t n = c->cmd->repeat == NULL ? 0 : strlen(c->cmd->repeat);
	int kept = 1;

	c->repeated = xcalloc((size_t)argc, sizeof *c->repeated);
	for (int i = 1; i < argc; i++) {
		const char *flag = argv[i];
		bool ours = n > 0 && strncmp(flag, "--", 2) == 0 && strncmp(flag + 2, c->cmd->repeat, n) == 0;

		if (strcmp(flag, "--") == 0)
			n = 0;
		if (ours && flag[2 + n] == '=')
			c->repeated[c->n_repeated++] = flag + 3 + n;
		else if (ours && flag[2 + n] == '\0' && i + 1 < argc)
			c->repeated[c->n_repeated++] = argv[++i];
		else
			argv[kept++] = argv[i];
	}
	return kept;
}

static int
check_operands(const struct cli *c)
{
	char text[120];

	if (c->n_operands >= c->cmd->min_operands)
		return CLI_DONE;
	snprintf(text, sizeof text, "something is missing: pgrab %s %s", c->cmd->name, c->cmd->usage);
	return cli_usage(c->cmd, text);
}

/* Not option_read_env: PGRAB_NAME is a node's name, not a filter. */
static void
from_environment(char **option, const char *variable)
{
	const char *value = getenv(variable);

	if (*option == NULL && value != NULL && *value != '\0')
		*option = xstrdup(value);
}

static int
dispatch(const struct command *cmd, int argc, char **argv)
{
	const char *operands[OPERANDS_MAX] = {NULL};
	struct cli c = {.cmd = cmd, .operands = operands};
	AUTO_FREE void *options = xcalloc(1, cmd->options_size);
	bool help = false;
	int code;
	enum rc rc;

	assert(cmd->options_size >= sizeof(struct cli_common) && cmd->max_operands <= OPERANDS_MAX);
	c.options = c.common = options;
	option_defaults(cmd->options, options);
	argc = take_repeated(&c, argc, argv);
	rc = option_read_argv(
	    cmd->options, options, argc, argv, operands, cmd->max_operands, &c.n_operands, &help, &c.err);
	if (help) {
		cli_help_command(cmd);
		code = CLI_DONE;
	} else if (rc != RC_OK) {
		code = cli_usage(cmd, c.err.text);
	} else {
		struct cli_common *common = options;

		from_environment(&common->dsn, "PGRAB_DSN");
		from_environment(&common->schema, "PGRAB_SCHEMA");
		code = check_operands(&c);
		if (code == CLI_DONE && common->schema != NULL && schema_use(common->schema, &c.err) != RC_OK)
			code = cli_usage(cmd, c.err.text);
		if (code == CLI_DONE)
			code = cmd->exec != NULL
				   ? cmd->exec(&c)
				   : cli_list(&c, cmd->sql, cmd->max_operands, operands, cmd->nothing);
	}
	db_destroy(&c.db);
	option_free(cmd->options, options);
	free(c.repeated);
	return code;
}

/* By the time of the last flush errno may come from anything; a pipe without a reader still says so. */
bool
cli_reader_left(void)
{
	struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};

	return poll(&p, 1, 0) == 1 && (p.revents & (POLLERR | POLLHUP)) != 0;
}

/* A reader that went away has what it wanted; with a full disk it has not. */
static int
flush_output(int code)
{
	if ((fflush(stdout) == 0 && !ferror(stdout)) || cli_reader_left())
		return code;
	fprintf(stderr, "pgrab: could not write the output: %s\n", strerror(errno));
	return code == CLI_DONE ? CLI_FAILED : code;
}

int
cli_main(int argc, char **argv)
{
	const struct command *cmd;
	int code;

	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		cli_help(stderr);
		return CLI_USAGE;
	}
	cmd = cli_find(strcmp(argv[1], "-h") == 0 ? "help" : argv[1]);
	if (cmd == NULL)
		code = cli_unknown(argv[1]);
	else if (cmd->exec_argv != NULL)
		code = cmd->exec_argv(argc - 1, argv + 1);
	else
		code = dispatch(cmd, argc - 1, argv + 1);
	return flush_output(code);
}
