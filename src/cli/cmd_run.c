/* pgrab run */
#include <stdio.h>
#include <unistd.h>
#include <string.h>
#include <sys/prctl.h>

#include "cli/commands.h"
#include "node/node.h"
#include "node/settings.h"

/* A command line is shown to everybody. */
static void
hide_password(char *dsn)
{
	if (strstr(dsn, "password") != NULL || strchr(dsn, '@') != NULL)
		memset(dsn, '*', strlen(dsn));
}

/* After the settings were read, which are copies. */
static void
hide_passwords(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && (strcmp(argv[i], "--dsn") == 0 || strcmp(argv[i], "-d") == 0))
			hide_password(argv[i + 1]);
		else if (strncmp(argv[i], "--dsn=", 6) == 0)
			hide_password(argv[i] + 6);
		else if (strncmp(argv[i], "-d", 2) == 0)
			hide_password(argv[i] + 2);
	}
}

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
	hide_passwords(argc, argv);
	if (help) {
		cli_help_command(&cmd_run);
		code = CLI_DONE;
	} else if (rc != RC_OK) {
		code = cli_usage(&cmd_run, err.text);
	} else {
		code = node_main(&settings);
		settings_fini(&settings);
		/* Not by way of exit(): a look-up of a name may still be under way in a thread that was left
		 * behind, and what it uses would be taken down under it. */
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
	"Start as many as you like; each takes its share. A flag --dead-after 10s may as well stand in the\n"
	"file of --config as dead_after = 10s, or in the environment as PGRAB_DEAD_AFTER=10s; the flag goes\n"
	"before the file, the file before the environment.",
    .options = settings_keys,
    .exec_argv = run_node,
};
