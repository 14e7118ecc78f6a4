/* pgrab executor list, pgrab strategy list: what is built in.  They ask no database. */
#include <cjson/cJSON.h>
#include <string.h>

#include "cli/commands.h"
#include "exec/exec.h"
#include "strategy/host.h"

#define FILES_MAX 32

static const struct option_key keys[] = {CLI_JSON_ROW, CLI_LAST_ROW};

/* CLI_DONE, or the code of what it has reported. */
static int
check_subcommand(struct cli *c)
{
	char text[120];

	if (strcmp(c->operands[0], "list") == 0)
		return CLI_DONE;
	snprintf(text, sizeof text, "\"%.40s\" is not a subcommand; use: pgrab %s %s", c->operands[0],
	    c->cmd->name, c->cmd->usage);
	return cli_usage(c->cmd, text);
}

static const char *
member(const cJSON *object, const char *name)
{
	return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, name));
}

/* JSON has one element a line; the table has the names and what they are. */
static void
put_list(const struct cli *c, const char *name, cJSON *list)
{
	AUTO_BUF struct buf out = {0};
	const cJSON *one;

	if (!c->common->json)
		buf_addf(&out, "%-12s  %s\n", name, "summary");
	cJSON_ArrayForEach(one, list)
	{
		char *text = cJSON_PrintUnformatted(one);

		if (c->common->json)
			buf_addf(
			    &out, "%s%s", one == list->child ? "[" : ",\n ", text != NULL ? text : "null");
		else {
			buf_addf(&out, "%-12s  ", member(one, name));
			text_line(&out, member(one, "summary"));
			buf_addc(&out, '\n');
		}
		cJSON_free(text);
	}
	if (c->common->json) {
		buf_addc(&out, ']');
		text_put_json(buf_str(&out));
	} else {
		text_put(&out);
	}
	cJSON_Delete(list);
}

/* Adds one to the list. */
static void
add(cJSON *list, const char *name_of, const char *name, const char *flag_of, bool flag, const char *summary)
{
	cJSON *one = cJSON_CreateObject();

	cJSON_AddStringToObject(one, name_of, name);
	cJSON_AddBoolToObject(one, flag_of, flag);
	cJSON_AddStringToObject(one, "summary", summary);
	cJSON_AddItemToArray(list, one);
}

static int
run_executor(struct cli *c)
{
	struct exec_set *files = NULL;
	const struct pgrab_executor *x;
	AUTO_BUF struct buf paths = {0};
	cJSON *list;
	enum rc rc;

	if (check_subcommand(c) != CLI_DONE)
		return CLI_USAGE;
	for (int i = 1; i < c->n_operands; i++)
		buf_addf(&paths, "%s,", c->operands[i]);
	rc = exec_set_create("", buf_str(&paths), &files, &c->err);
	if (rc != RC_OK)
		return cli_fail(c, rc, NULL);
	list = cJSON_CreateArray();
	for (size_t i = 0; exec_builtin[i] != NULL; i++)
		add(list, "kind", exec_builtin[i]->kind, "builtin", true, exec_builtin[i]->summary);
	/* With nothing allowed the set holds only those of the files. */
	for (size_t i = 0; (x = exec_set_at(files, i)) != NULL; i++)
		add(list, "kind", x->kind, "builtin", exec_kind_builtin(x->kind), x->summary);
	put_list(c, "kind", list);
	exec_set_destroy(&files);
	return CLI_DONE;
}

static int
run_strategy(struct cli *c)
{
	cJSON *list;

	if (check_subcommand(c) != CLI_DONE)
		return CLI_USAGE;
	list = cJSON_CreateArray();
	for (const struct pgrab_strategy *const *s = strategy_builtin; *s != NULL; s++)
		add(list, "name", (*s)->name, "overlapping", (*s)->overlapping, (*s)->summary);
	put_list(c, "name", list);
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
    .options_size = sizeof(struct cli_common),
    CLI_OPERANDS(1, FILES_MAX),
    .exec = run_executor,
};

const struct command cmd_strategy = {
    .name = "strategy",
    .group = GROUP_LOOK,
    .usage = "list [--json]",
    .summary = "list the built-in strategies: which node takes which task",
    .details = "Use them with pgrab run --strategy NAME, or your own with --strategy PATH.so. The view\n"
	       "pgrab.ownership says which node owns what at the moment.",
    .options = keys,
    .options_size = sizeof(struct cli_common),
    CLI_OPERANDS(1, 1),
    .exec = run_strategy,
};
