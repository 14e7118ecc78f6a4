/* pgrab serve */
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/commands.h"
#include "db/schema.h"
#include "serve/serve.h"

static int
run_serve(int argc, char **argv)
{
	struct serve_settings settings;
	struct err err = {0};
	bool help = false;
	enum rc rc;
	int code;

	(void)prctl(PR_SET_DUMPABLE, 0); /* passwords */
	rc = serve_settings_load(argc, argv, &settings, &help, &err);
	option_hide_secrets(serve_keys, argc, argv);
	if (help) {
		cli_help_command(&cmd_serve);
		code = CLI_DONE;
	} else if (rc != RC_OK || (rc = schema_use(settings.schema, &err)) != RC_OK) {
		code = cli_usage(&cmd_serve, err.text);
	} else {
		code = serve_main(&settings);
		serve_settings_fini(&settings);
		fflush(NULL);
		_exit(code); /* a name lookup may be under way in a thread that was left behind */
	}
	serve_settings_fini(&settings);
	return code;
}

const struct command cmd_serve = {
    .name = "serve",
    .group = GROUP_SETUP,
    .usage = "[OPTIONS]",
    .summary = "serve metrics, an HTTP API and a web page, until TERM or INT",
    .details =
	"A separate process beside the nodes, on 127.0.0.1:8080 unless told otherwise. Every option can\n"
	"also be set in the file of --config as key = value, or in the environment as PGRAB_KEY=value. A\n"
	"flag takes precedence over the file, the file over the environment. See docs/http.md.",
    .options = serve_keys,
    .exec_argv = run_serve,
};
