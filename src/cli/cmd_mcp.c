/* pgrab mcp */
#include "cli/commands.h"
#include "serve/mcp.h"

struct options {
	struct cli_common common;
	bool allow_writes;
};

static const struct option_key keys[] = {
    CLI_DSN_ROW,
    CLI_FLAG_ROW(allow_writes, 0, "with the tools pause, resume, retry and cancel"),
    CLI_LAST_ROW,
};

static int
run_mcp(struct cli *c)
{
	const struct options *o = c->options;
	struct db *db = cli_db(c, CLI_DEADLINE_US);
	enum rc rc = db_connect(db, &c->err);

	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	mcp_talk(db, o->allow_writes, stdin, stdout);
	return CLI_DONE;
}

const struct command cmd_mcp = {
    .name = "mcp",
    .group = GROUP_OTHER,
    .usage = "[OPTIONS]",
    .summary = "let an agent ask, by the Model Context Protocol on standard input and output",
    .details =
	"Its tools are those of the HTTP API that read: overview, doctor, tasks, task, explain, history,\n"
	"output, late, failing, nodes, forecast. They see what the role of the connection sees. An\n"
	"answer is at most 256 KiB long. See docs/http.md.",
    CLI_OPTIONS(keys),
    .in_utc = true,
    .exec = run_mcp,
};
