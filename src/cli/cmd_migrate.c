/* pgrab migrate */
#include <string.h>

#include "cli/commands.h"
#include "cli/table.h"
#include "db/migrate.h"
#include "db/schema.h"

/* An index over a large table takes its time. */
#define MIGRATE_DEADLINE_US INT64_C(3600000000)

struct options {
	struct cli_common common;
	bool status, check, dry_run, force, roles;
};

static const struct option_key keys[] = {
    CLI_DSN_ROW,
    CLI_FLAG_ROW(status, 0, "only say what is installed"),
    CLI_FLAG_ROW(check, 0,
	"only say whether this program can work with the installed schema: exit status 0, or 1 if migrate "
	"must run or a newer program is needed"),
    CLI_FLAG_ROW(dry_run, 0, "only say what would be done"),
    CLI_FLAG_ROW(force, 0, "replace views and functions even if they have not changed"),
    CLI_FLAG_ROW(
	roles, 0, "from now on separate roles own, run, submit, operate and read; see docs/security.md"),
    {"json", 0, OPTION_FLAG, offsetof(struct cli_common, json), NULL, "with --status: print JSON"},
    CLI_LAST_ROW,
};

struct progress {
	bool dry_run;
	int applied;
};

static void
say_step(void *ctx, const char *name, bool applied)
{
	struct progress *p = ctx;

	if (!applied)
		return;
	p->applied++;
	printf("%s %s\n", p->dry_run ? "would apply" : "applying",
	    strcmp(name, "api") == 0 ? "views and functions" : name);
	fflush(stdout);
}

static const char *
state_text(enum schema_state s)
{
	switch (s) {
	case SCHEMA_NONE: return "not installed; run: pgrab migrate";
	case SCHEMA_OLD:
		return "older than this program, or its tables have other columns; run: pgrab migrate";
	case SCHEMA_CURRENT: return "up to date";
	case SCHEMA_NEWER: return "newer than this program, which may use it";
	case SCHEMA_TOO_NEW: return "newer than this program, which must not use it: upgrade the program";
	default: return "?";
	}
}

static void
say_state(struct cli *c, enum schema_state s)
{
	printf("The schema %s in database %s is %s%s.\n", schema_name(), PQdb(db_conn(c->db)), state_text(s),
	    s == SCHEMA_NONE || s == SCHEMA_OLD ? schema_flag() : "");
}

static int
print_status_json(struct cli *c, const struct schema_status *st)
{
	AUTO_BUF struct buf out = {0};
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = RC_OK;

	if (st->state != SCHEMA_NONE)
		rc = report_array(c->db, "cli_migrations", 0, NULL, &r, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	buf_addf(&out, "{\"state\":\"%s\",\"installed\":%d,\"known\":%d,\"api_current\":%s,\"migrations\":",
	    schema_state_name(st->state), st->installed, st->known, st->api_current ? "true" : "false");
	text_json(&out, r != NULL ? db_text(r, 0, 0) : "[]");
	out.data[--out.len] = '\0';
	printf("%s}\n", buf_str(&out));
	return CLI_DONE;
}

static int
print_status(struct cli *c)
{
	struct screen screen = screen_look();
	struct schema_status st;
	AUTO_BUF struct buf out = {0};
	AUTO_CLEAR PGresult *r = NULL;
	enum rc rc = schema_status_read(cli_db(c, CLI_DEADLINE_US), &st, &c->err);

	if (rc != RC_OK)
		return cli_fail(c, rc, "reading the state of the schema");
	if (c->common->json)
		return print_status_json(c, &st);
	say_state(c, st.state);
	printf("Installed: version %d; this program brings version %d. Views and functions: %s.\n",
	    st.installed, st.known,
	    st.state == SCHEMA_NONE ? "none"
	    : st.api_current        ? "this program's"
				    : "another program's");
	if (st.state == SCHEMA_NONE)
		return CLI_DONE;
	rc = report_rows(c->db, "cli_migrations", 0, NULL, &r, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	table_print(&out, r, &screen);
	printf("\n%s", buf_str(&out));
	return CLI_DONE;
}

/* For scripts that deploy. */
static int
check(struct cli *c)
{
	struct schema_status st;
	enum rc rc = schema_status_read(cli_db(c, CLI_DEADLINE_US), &st, &c->err);

	if (rc != RC_OK)
		return cli_fail(c, rc, "reading the state of the schema");
	say_state(c, st.state);
	return st.state == SCHEMA_CURRENT || st.state == SCHEMA_NEWER ? CLI_DONE : CLI_FAILED;
}

static int
run_migrate(struct cli *c)
{
	const struct options *o = c->options;
	struct progress p = {.dry_run = o->dry_run};
	enum migrate_how how = o->dry_run ? MIGRATE_DRY_RUN
			       : o->roles ? MIGRATE_ROLES
			       : o->force ? MIGRATE_API
					  : MIGRATE_MISSING;
	enum rc rc;

	if (o->dry_run && (o->roles || o->force))
		return cli_usage(c->cmd, "--dry-run says what is missing: not with --roles or --force");
	if (o->status)
		return print_status(c);
	if (o->check)
		return check(c);
	rc = schema_migrate(cli_db(c, MIGRATE_DEADLINE_US), how, say_step, &p, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	if (p.applied == 0)
		printf("Nothing to do: the schema %s in database %s is up to date.\n", schema_name(),
		    PQdb(db_conn(c->db)));
	else if (!o->dry_run)
		printf("The schema %s in database %s is up to date.\n", schema_name(), PQdb(db_conn(c->db)));
	return CLI_DONE;
}

const struct command cmd_migrate = {
    .name = "migrate",
    .group = GROUP_SETUP,
    .usage = "[--status | --check | --dry-run] [OPTIONS]",
    .summary = "install the schema in a database, or upgrade it",
    .details =
	"All of it is one transaction. You can run it at any time, even twice at once, and while nodes are\n"
	"running, unless it says that they must be stopped. It needs CREATE on the database the first time,\n"
	"and later the role that owns the schema.",
    CLI_OPTIONS(keys),
    .exec = run_migrate,
};
