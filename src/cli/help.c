/* The help, made from the table of commands. */
#include <string.h>

#include "cli/commands.h"
#include "cli/manual.h"
#include "node/settings/settings.h"

static const char *const group_titles[GROUP__COUNT] = {[GROUP_SETUP] = "Setting up and running",
    [GROUP_LOOK] = "Looking around",
    [GROUP_DO] = "Tasks",
    [GROUP_NODES] = "Nodes",
    [GROUP_OTHER] = "Other"};

void
cli_help(FILE *to)
{
	fputs("pgrab - a distributed task scheduler on PostgreSQL\n\nUsage: pgrab COMMAND [OPTIONS] "
	      "[ARGUMENTS]\n",
	    to);
	for (int g = 0; g < GROUP__COUNT; g++) {
		fprintf(to, "\n%s:\n", group_titles[g]);
		for (const struct command *const *c = cli_commands; *c != NULL; c++) {
			if ((int)(*c)->group == g)
				fprintf(to, "  %-10s %s\n", (*c)->name, (*c)->summary);
		}
	}
	fputs("\nEvery command says more with --help.  Exit status: 0 done, 1 failed, 2 wrong usage, 3 no "
	      "such thing.\n"
	      "The database: --dsn, else PGRAB_DSN, else libpq's environment (PGHOST, PGDATABASE, ...), as "
	      "with psql.\n",
	    to);
}

/* Lists the sections; their keys are in the manual. */
static void
print_sections(void)
{
	puts("\nThe file of --config may also have these sections; their keys: man pgrab.conf.");
	for (const struct option_section *s = settings_sections; s->word != NULL; s++) {
		AUTO_BUF struct buf line = {0}, keys = {0}, left = {0};

		for (const struct option_key *k = s->table; k->name != NULL; k++)
			buf_addf(&keys, "%s%s ", k->name, k[1].name != NULL ? "," : "");
		buf_addf(&line, "  [%s NAME]  ", s->word);
		buf_addf(&left, "%*s", (int)line.len, "");
		buf_wrap(&line, buf_str(&keys), 97, buf_str(&left));
		text_put(&line);
	}
}

void
cli_help_command(const struct command *cmd)
{
	printf("pgrab %s - %s\n\nUsage: pgrab %s %s\n", cmd->name, cmd->summary, cmd->name, cmd->usage);
	if (cmd->details != NULL)
		printf("\n%s\n", cmd->details);
	if (cmd->options != NULL) {
		puts("\nOptions:");
		option_print_help(cmd->options);
	}
	if (cmd->options == settings_keys)
		print_sections();
}

/* What other tools call it. */
static const char *
other_word(const char *name)
{
	static const struct {
		const char *words, *command;
	} others[] = {
	    {" kill stop abort terminate ", "cancel"},
	    {" rm remove drop unschedule ", "delete"},
	    {" ls list jobs queue crontab ", "tasks"},
	    {" log output tail ", "logs"},
	    {" info describe inspect get ", "show"},
	    {" start trigger exec ", "run-now"},
	    {" schedule submit create insert enqueue ", "add"},
	    {" restore recover ", "undelete"},
	    {" worker agent ", "run"},
	    {" disable suspend hold ", "pause"},
	    {" enable unpause continue ", "resume"},
	    {" rerun restart ", "retry"},
	    {" install init upgrade ", "migrate"},
	};
	char word[40];

	snprintf(word, sizeof word, " %.36s ", name);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		if (strstr(others[i].words, word) != NULL)
			return others[i].command;
	}
	return NULL;
}

int
cli_unknown(const char *name)
{
	struct option_key words[CLI_COMMANDS_MAX + 1] = {{0}};
	char text[200];
	const char *near;

	/* option_nearest reads names only. */
	for (size_t i = 0; i < CLI_COMMANDS_MAX && cli_commands[i] != NULL; i++)
		words[i].name = cli_commands[i]->name;
	near = other_word(name) != NULL ? other_word(name) : option_nearest(words, name);
	snprintf(text, sizeof text, "unknown command \"%.60s\"%s%s%s", name,
	    near != NULL ? "; did you mean " : "", near != NULL ? near : "", near != NULL ? "?" : "");
	return cli_usage(NULL, text);
}

const char *
cli_group_title(enum command_group group)
{
	return group_titles[group];
}

/* --man PAGE, --example-config: for making packages. */
static int
print_manual(int argc, char **argv)
{
	bool man = strcmp(argv[1], "--man") == 0 && argc == 3;
	struct buf page = {0};

	if (strcmp(argv[1], "--example-config") == 0 && argc == 2)
		manual_example_config(&page);
	else if (!man || !manual_page(argv[2], &page))
		return cli_usage(&cmd_help, man ? "the pages are pgrab.1, pgrab.conf.5 and pgrab.7"
						: "unknown option; it has --man PAGE and --example-config");
	text_put(&page);
	return CLI_DONE;
}

static int
run_help(int argc, char **argv)
{
	const struct command *cmd;

	if (argc < 2) {
		cli_help(stdout);
		return CLI_DONE;
	}
	if (argv[1][0] == '-' && strcmp(argv[1], "--help") != 0 && strcmp(argv[1], "-h") != 0)
		return print_manual(argc, argv);
	if (argv[1][0] == '-') {
		cli_help(stdout);
		return CLI_DONE;
	}
	cmd = cli_find(argv[1]);
	if (cmd == NULL)
		return cli_unknown(argv[1]);
	cli_help_command(cmd);
	return CLI_DONE;
}

const struct command cmd_help = {
    .name = "help",
    .alias = "--help",
    .group = GROUP_OTHER,
    .usage = "[COMMAND | --man PAGE | --example-config]",
    .summary = "list the commands, or explain one",
    .details = "--man prints a page of the manual, pgrab.1, pgrab.conf.5 or pgrab.7, as man(1) reads it:\n"
	       "  pgrab help --man pgrab.conf.5 | man -l -\n"
	       "--example-config prints a file for pgrab run --config, with every setting commented out.",
    .exec_argv = run_help,
};
