/* pgrab executor: asks no database. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "exec/exec.h"

#define FILES_MAX 32

struct options {
	struct cli_common common;
};

static const struct option_key keys[] = {CLI_JSON_ROW, CLI_LAST_ROW};

/* The built-in ones, then those of the set: with nothing allowed it holds only those of the files. */
static const struct pgrab_executor *
executor_at(const struct exec_set *files, size_t i)
{
	for (size_t k = 0; exec_builtin[k] != NULL; k++, i--) {
		if (i == 0)
			return exec_builtin[k];
	}
	return exec_set_at(files, i);
}

/* One executor per line. */
static void
print_json(const struct exec_set *files)
{
	const struct pgrab_executor *x;

	for (size_t i = 0; (x = executor_at(files, i)) != NULL; i++) {
		cJSON *one = cJSON_CreateObject();
		struct buf line = {0};
		char *text;

		cJSON_AddStringToObject(one, "kind", x->kind);
		cJSON_AddBoolToObject(one, "builtin", exec_kind_builtin(x->kind));
		cJSON_AddStringToObject(one, "summary", x->summary);
		text = cJSON_PrintUnformatted(one);
		text_json(&line, text != NULL ? text : "null");
		line.data[line.len - 1] = '\0'; /* text_json ends the line */
		printf("%s%s", i == 0 ? "[" : ",\n ", buf_str(&line));
		free(text);
		buf_fini(&line);
		cJSON_Delete(one);
	}
	puts("]");
}

static void
print_table(const struct exec_set *files)
{
	const struct pgrab_executor *x;

	printf("%-12s  %s\n", "kind", "summary");
	for (size_t i = 0; (x = executor_at(files, i)) != NULL; i++) {
		struct buf line = {0};

		text_line(&line, x->summary);
		printf("%-12s  %s\n", x->kind, buf_str(&line));
		buf_fini(&line);
	}
}

static int
run_executor(struct cli *c)
{
	struct exec_set *files = NULL;
	struct buf paths = {0};
	char text[120];
	enum rc rc;

	if (strcmp(c->operands[0], "list") != 0) {
		snprintf(text, sizeof text, "\"%.40s\" is not a subcommand; use: pgrab executor %s",
		    c->operands[0], c->cmd->usage);
		return cli_usage(c->cmd, text);
	}
	for (int i = 1; i < c->n_operands; i++)
		buf_addf(&paths, "%s,", c->operands[i]);
	rc = exec_set_create("", buf_str(&paths), &files, &c->err);
	buf_fini(&paths);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	if (c->common->json)
		print_json(files);
	else
		print_table(files);
	exec_set_destroy(&files);
	return CLI_DONE;
}

const struct command cmd_executor = {
    .name = "executor",
    .group = GROUP_LOOK,
    .usage = "list [FILE.so...] [--json]",
    .summary = "list the executors, that is, the kinds of task",
    .details =
	"The built-in ones, and those of the files, which are loaded as a node with --executors would load\n"
	"them. The setting `allow` of a node says which kinds it runs; `pgrab nodes` shows it.",
    .options = keys,
    .options_size = sizeof(struct options),
    .min_operands = 1,
    .max_operands = FILES_MAX,
    .exec = run_executor,
};
