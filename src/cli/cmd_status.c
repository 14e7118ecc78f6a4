/* pgrab status */
#include <string.h>

#include "cli/all.h"
#include "cli/commands.h"
#include "db/schema.h"

#define ATTENTION_MAX 40

struct options {
	struct cli_common common;
	bool all;
	char *config;
};

static const struct option_key keys[] = {CLI_COMMON_ROWS, CLI_ALL_ROWS, CLI_LAST_ROW};

static const char *
field(const PGresult *r, const char *name)
{
	int col = PQfnumber(r, name);

	return col < 0 ? "?" : db_text(r, 0, col);
}

/* Counts stop at ten thousand: that many or more. */
static const char *
more(const PGresult *r, const char *name)
{
	return strcmp(field(r, name), "10000") == 0 ? "+" : "";
}

static void
print_overview(const PGresult *r)
{
	const char *oldest = field(r, "oldest_late");

	printf("now      nodes up %s, running %s, due %s%s, late %s%s%s%s%s, parked %s%s, failing %s%s, "
	       "overdue %s%s, waiting %s%s\n",
	    field(r, "nodes_up"), field(r, "running"), field(r, "due"), more(r, "due"), field(r, "late"),
	    more(r, "late"), *oldest != '\0' ? " (for " : "", oldest, *oldest != '\0' ? ")" : "",
	    field(r, "parked"), more(r, "parked"), field(r, "failing"), more(r, "failing"),
	    field(r, "overdue"), more(r, "overdue"), field(r, "waiting"), more(r, "waiting"));
	printf("runs     last minute %s%s (%s%s failed), last hour %s%s (%s%s failed)\n", field(r, "runs_1m"),
	    more(r, "runs_1m"), field(r, "failed_1m"), more(r, "failed_1m"), field(r, "runs_1h"),
	    more(r, "runs_1h"), field(r, "failed_1h"), more(r, "failed_1h"));
}

static void
print_attention(const PGresult *r)
{
	struct screen screen = screen_look();
	struct buf out = {0};

	if (PQntuples(r) == 0)
		buf_adds(&out, "\nNothing needs attention.\n");
	else
		buf_adds(&out, "\nneeds attention:\n");
	for (int row = 0; row < PQntuples(r) && row < ATTENTION_MAX; row++) {
		buf_adds(&out, screen.color ? "  \033[31m" : "  ");
		text_line(&out, db_text(r, row, 1));
		buf_adds(&out, screen.color ? "\033[0m\n" : "\n");
	}
	if (PQntuples(r) > ATTENTION_MAX)
		buf_addf(&out, "  ... and more: pgrab doctor, select * from %s.late\n", schema_name());
	text_put(&out);
}

/* The overview's object, and in it the list. */
static void
print_json(const PGresult *overview, const PGresult *attention)
{
	AUTO_BUF struct buf out = {0};
	const char *object = db_text(overview, 0, 0);

	buf_addf(&out, "%.*s,\"attention\":", (int)strlen(object) - 1, object);
	text_json(&out, db_text(attention, 0, 0));
	out.data[--out.len] = '\0';
	printf("%s}\n", buf_str(&out));
}

static int
run_one(struct cli *c)
{
	struct db *db = cli_db(c, CLI_DEADLINE_US);
	bool json = c->common->json;
	static const char *const late[] = {NULL}; /* as many as usual */
	AUTO_CLEAR PGresult *overview = NULL, *attention = NULL;
	int code = CLI_DONE;
	enum rc rc;

	rc = report_ask(db, json ? REPORT_OBJECTS : REPORT_ROWS, "cli_overview", 0, NULL, &overview, &c->err);
	if (rc == RC_OK)
		rc = report_ask(
		    db, json ? REPORT_ARRAY : REPORT_ROWS, "cli_attention", 1, late, &attention, &c->err);
	if (rc != RC_OK) {
		code = cli_fail(c, rc, NULL);
	} else if (json) {
		print_json(overview, attention);
	} else {
		print_overview(overview);
		print_attention(attention);
	}
	return code;
}

static int
run_status(struct cli *c)
{
	const struct options *o = c->options;

	return o->all ? all_list(c, o->config, "cli_overview", 0, NULL, "") : run_one(c);
}

const struct command cmd_status = {
    .name = "status",
    .alias = "st",
    .group = GROUP_LOOK,
    .usage = "[OPTIONS]",
    .summary = "show the cluster in a few lines, and what needs attention",
    .details = "The view pgrab.overview; late tasks by reason, nodes that died, are silent or slow,\n"
	       "tasks that fail, are overdue or wait for a signal.",
    CLI_OPTIONS(keys),
    .exec = run_status,
};
