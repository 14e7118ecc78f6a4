/* pgrab strategy: asks no database. */
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/text.h"
#include "strategy/host.h"

struct options {
	struct cli_common common;
};

static const struct option_key keys[] = {CLI_JSON_ROW, CLI_LAST_ROW};

/* One strategy per line. */
static void
print_json(void)
{
	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		cJSON *one = cJSON_CreateObject();
		char *text;

		cJSON_AddStringToObject(one, "name", strategy_builtin[i]->name);
		cJSON_AddBoolToObject(one, "overlapping", strategy_builtin[i]->overlapping);
		cJSON_AddStringToObject(one, "summary", strategy_builtin[i]->summary);
		text = cJSON_PrintUnformatted(one);
		printf("%s%s", i == 0 ? "[" : ",\n ", text != NULL ? text : "null");
		free(text);
		cJSON_Delete(one);
	}
	puts("]");
}

static int
run_strategy(struct cli *c)
{
	char text[120];

	if (strcmp(c->operands[0], "list") != 0) {
		snprintf(text, sizeof text, "\"%.40s\" is not a subcommand; use: pgrab strategy %s",
		    c->operands[0], c->cmd->usage);
		return cli_usage(c->cmd, text);
	}
	if (c->common->json) {
		print_json();
		return CLI_DONE;
	}
	printf("%-12s  %s\n", "name", "summary");
	for (size_t i = 0; strategy_builtin[i] != NULL; i++)
		printf("%-12s  %s\n", strategy_builtin[i]->name, strategy_builtin[i]->summary);
	return CLI_DONE;
}

const struct command cmd_strategy = {
    .name = "strategy",
    .group = GROUP_LOOK,
    .usage = "list [--json]",
    .summary = "list the built-in strategies: which node takes which task",
    .details = "Use them with pgrab run --strategy NAME, or your own with --strategy PATH.so. The view\n"
	       "pgrab.ownership says which node owns what at the moment.",
    .options = keys,
    .options_size = sizeof(struct options),
    .min_operands = 1,
    .max_operands = 1,
    .exec = run_strategy,
};
