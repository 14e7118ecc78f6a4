/* pgrab sql */
#include "cli/commands.h"
#include "db/migrate.h"
#include "db/schema.h"

struct options {
	struct cli_common common;
	int64_t from;
	bool roles;
};

static const struct option_key keys[] = {
    CLI_SCHEMA_ROW,
    {"from", 0, OPTION_INT, offsetof(struct options, from), "N",
	"only what is missing in a schema that already has migration N (see pgrab migrate --status)", "0", 0,
	9999},
    CLI_FLAG_ROW(roles, 0,
	"only the roles that `pgrab migrate --roles` would create, to be run by a role that may create them"),
    CLI_LAST_ROW,
};

static int
run_sql(struct cli *c)
{
	const struct options *o = c->options;
	struct buf out = {0};

	if (o->roles && o->from > 0)
		return cli_usage(c->cmd, "--roles prints no migrations: not with --from");
	if (o->roles)
		buf_addf(&out,
		    "%s;\n-- Then, as the role that owns pgrab now: pgrab migrate --roles\n"
		    "-- It must be a member: grant %s_owner to ...;\n",
		    sql_text("roles"), schema_name());
	else
		schema_print((int)o->from, &out);
	text_put(&out);
	return CLI_DONE;
}

const struct command cmd_sql = {
    .name = "sql",
    .group = GROUP_SETUP,
    .usage = "[--from N | --roles] [--schema NAME]",
    .summary = "print what migrate would do, for another migration tool",
    .details = "Apply it in one transaction: pgrab sql | psql -1 -v ON_ERROR_STOP=1",
    CLI_OPTIONS(keys),
    .exec = run_sql,
};
