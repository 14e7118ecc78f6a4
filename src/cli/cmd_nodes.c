/* pgrab nodes */
#include "cli/all.h"
#include "cli/commands.h"

struct options {
	struct cli_common common;
	bool check, all;
	char *config;
};

static const struct option_key keys[] = {
    CLI_COMMON_ROWS,
    CLI_FLAG_ROW(
	check, 0, "print only faults; exit status 1 unless NODE (or, without NODE, any node) is alive"),
    CLI_ALL_ROWS,
    CLI_LAST_ROW,
};

/* For probes of a container or a monitor. */
static int
check(struct cli *c, const char *name)
{
	AUTO_CLEAR PGresult *r = NULL;
	int code = cli_rows(c, "cli_nodes_alive", 1, &name, &r);

	if (code != CLI_DONE || db_bool(r, 0, 0))
		return code;
	return name == NULL ? cli_failed(c, "no node is alive") : cli_failed(c, "node %s is not alive", name);
}

static int
run_nodes(struct cli *c)
{
	const struct options *o = c->options;
	const char *name = c->operands[0];

	if (o->check && o->all)
		return cli_usage(c->cmd, "--check asks one database: give it its --dsn, not --all");
	if (o->check)
		return check(c, name);
	if (o->all)
		return all_list(c, o->config, "cli_nodes", 1, &name, SAYS_NO_NODES);
	return cli_list(c, "cli_nodes", 1, &name,
	    name == NULL ? SAYS_NO_NODES : "No node of this name has ever run here.");
}

const struct command cmd_nodes = {
    .name = "nodes",
    .group = GROUP_LOOK,
    .usage = "[NODE] [OPTIONS]",
    .summary = "list the nodes: state, heartbeat, load, shards and claims",
    .details = "The view pgrab.nodes. busy is slots in use/slots at the last heartbeat; shards is the number "
	       "owned, of\n"
	       "1024; pgrab.ownership says which.",
    CLI_OPTIONS(keys),
    .max_operands = 1,
    .exec = run_nodes,
};
