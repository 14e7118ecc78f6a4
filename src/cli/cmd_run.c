/* pgrab run */
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "db/schema.h"
#include "node/node.h"
#include "node/settings/settings.h"

static int
run_node(int argc, char **argv)
{
	struct settings settings;
	struct err err = {0};
	bool help = false;
	enum rc rc;
	int code;

	/* Before a password is read: no process of the same user, such as a task, may look into this one. */
	(void)prctl(PR_SET_DUMPABLE, 0);
	rc = settings_load(argc, argv, &settings, &help, &err);
	option_hide_secrets(settings_keys, argc, argv);
	if (help) {
		cli_help_command(&cmd_run);
		code = CLI_DONE;
	} else if (rc != RC_OK || (rc = schema_use(settings.schema, &err)) != RC_OK) {
		code = cli_usage(&cmd_run, err.text);
	} else {
		if (settings.core_dumps)
			(void)prctl(PR_SET_DUMPABLE, 1);
		code = node_main(&settings);
		settings_fini(&settings);
		/* Not by exit(): a name lookup may still be under way in a thread that was left behind, and
		 * exit() would tear down what it uses. */
		fflush(NULL);
		_exit(code);
	}
	settings_fini(&settings);
	return code;
}

const struct command cmd_run = {
    .name = "run",
    .group = GROUP_SETUP,
    .usage = "[OPTIONS]",
    .summary = "run a node, in the foreground, until TERM or INT",
    .details =
	"Start as many as you like; each takes its share. Every flag, such as --dead-after 10s, can also be\n"
	"set in the file of --config as dead_after = 10s, or in the environment as PGRAB_DEAD_AFTER=10s. A\n"
	"flag takes precedence over the file, the file over the environment.",
    .options = settings_keys,
    .exec_argv = run_node,
};
