/*
 * pgrab __complete WORD...: what the last WORD may be completed to, one a line.  The completions of bash and
 * zsh ask this, so they know what --help knows, and ids, keys, names and nodes from the database.
 *
 * A person waits with a finger on the Tab key: when the database cannot be reached, or does not answer at
 * once, it offers nothing and reports nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "core/run.h"

#define PATIENCE_US 1000000

/* What the word under the cursor should be: a word that cli_complete.sql knows, or one of these.  NULL:
 * nothing is known of it. */
#define THING_FILE    "file" /* left to the shell: the only answer is "/" */
#define THING_COMMAND "command"
#define THING_OUTCOME "outcome"
#define THING_ANSWER  "answer"

struct line {
	const struct command *cmd; /* NULL: none yet, or an unknown one */
	char **words;              /* after the command; the last one is under the cursor */
	int n;
	const char *typed;  /* the last one; of --option=value the value, */
	const char *before; /* and this is what comes before it */
	const char *dsn;
};

static void
offer(const struct line *l, const char *word)
{
	if (strncmp(word, l->typed, strlen(l->typed)) == 0)
		printf("%s%s\n", l->before, word);
}

static void
offer_all(const struct line *l, const char *const *words)
{
	for (; *words != NULL; words++)
		offer(l, *words);
}

static void
offer_commands(const struct line *l)
{
	for (const struct command *const *c = cli_commands; *c != NULL; c++) {
		if ((*c)->group < GROUP__COUNT)
			offer(l, (*c)->name);
	}
}

static void
offer_options(const struct line *l)
{
	for (const struct option_key *k = l->cmd->options; k != NULL && k->name != NULL; k++) {
		char flag[80];

		snprintf(flag, sizeof flag, "--%s", k->name);
		for (char *p = flag; *p != '\0'; p++)
			*p = *p == '_' ? '-' : *p;
		offer(l, flag);
	}
	offer(l, "--help");
}

/* Without such a database there is nothing to complete. */
static void
offer_from_database(const struct line *l, const char *what)
{
	const char *params[] = {what, l->typed};
	const char *dsn = l->dsn != NULL ? l->dsn : getenv("PGRAB_DSN");
	AUTO_DB struct db *db = db_create(dsn, "pgrab completion", PATIENCE_US);
	AUTO_CLEAR PGresult *r = NULL;
	struct err err;

	if (report_rows(db, "cli_complete", 2, params, &r, &err) == RC_OK) {
		for (int i = 0; i < PQntuples(r); i++) {
			const char *word = db_text(r, i, 0);

			/* What is not one plain line could not be typed either. */
			if (word[strcspn(word, "\n\t\r\033")] == '\0')
				offer(l, word);
		}
	}
}

static void
offer_things(const struct line *l, const char *thing)
{
	static const char *const answers[] = {"succeeded", "failed", NULL};

	if (thing == NULL)
		return;
	if (strcmp(thing, THING_FILE) == 0)
		puts("/");
	else if (strcmp(thing, THING_COMMAND) == 0)
		offer_commands(l);
	else if (strcmp(thing, THING_OUTCOME) == 0)
		offer_all(l, run_outcomes);
	else if (strcmp(thing, THING_ANSWER) == 0)
		offer_all(l, answers);
	else
		offer_from_database(l, thing);
}

struct meaning {
	const char *word, *thing;
};

static const char *
meaning_of(const struct meaning *table, const char *word)
{
	while (table->word != NULL && strcmp(table->word, word) != 0)
		table++;
	return table->thing;
}

static const char *
option_thing(const struct line *l, const struct option_key *k)
{
	static const struct meaning options[] = {{"task", "task"}, {"parent", "task"}, {"node", "node"},
	    {"limit", "limit"}, {"limit_key", "limit"}, {"calendar", "calendar"}, {"source", "source"},
	    {"kind", "kind"}, {"outcome", THING_OUTCOME}, {"config", THING_FILE}, {"executors", THING_FILE},
	    {"file", THING_FILE}, {NULL, NULL}};

	/* A new task's key and name do not exist yet. */
	if (l->cmd->group == GROUP_LOOK && (strcmp(k->name, "key") == 0 || strcmp(k->name, "name") == 0))
		return k->name;
	return k->type == OPTION_TEXT ? meaning_of(options, k->name) : NULL;
}

/* What comes right after the command.  NULL: nothing that is one of a few words. */
static const char *const *
first_words(const struct line *l)
{
	static const struct {
		const char *command, *words[4];
	} table[] = {{"import", {"crontab"}}, {"strategy", {"list"}}, {"executor", {"list"}},
	    {"blackout", {"add", "list", "remove"}}};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (strcmp(l->cmd->name, table[i].command) == 0)
			return table[i].words;
	}
	return NULL;
}

/* The n-th word of the usage that is not an option: "TASK [OPTIONS] [COMMAND]". */
static const char *
operand_thing(const struct line *l, int n)
{
	static const struct meaning operands[] = {{"TASK", "task"}, {"TASK...", "task"}, {"NODE", "node"},
	    {"KEY", "limit"}, {"NAME", "calendar"}, {"FILE", THING_FILE}, {"OUTCOME", THING_ANSWER},
	    {"SIGNAL", "signal"}, {NULL, NULL}};
	char word[40];

	if (l->cmd == &cmd_help)
		return THING_COMMAND;
	if (l->cmd == &cmd_blackout)
		return n == 1 && strcmp(l->words[0], "add") != 0 ? "blackout" : NULL;
	for (const char *p = l->cmd->usage + strspn(l->cmd->usage, " []|"); *p != '\0';
	     p += strspn(p, " []|")) {
		size_t length = strcspn(p, " []|");

		snprintf(word, sizeof word, "%.*s", (int)length, p);
		p += length;
		if (strcmp(word, "OPTIONS") == 0 || *word == '-')
			continue;
		if (n-- == 0 || (strstr(word, "...") != NULL && *word != '.'))
			return meaning_of(operands, word);
	}
	return NULL;
}

/* The option that `word` names and whose value comes next; NULL: it names none, or has its value with it. */
static const struct option_key *
awaits_value(const struct line *l, const char *word)
{
	const struct option_key *k = NULL;

	if (word[0] != '-' || l->cmd->options == NULL)
		return NULL;
	if (word[1] == '-')
		k = option_find(l->cmd->options, word + 2);
	for (const struct option_key *o = l->cmd->options;
	     word[1] != '-' && o->name != NULL && word[2] == '\0'; o++)
		k = o->letter != 0 && o->letter == word[1] ? o : k;
	return k != NULL && k->type != OPTION_FLAG ? k : NULL;
}

/* Of --option=value under the cursor only the value is looked for. */
static const struct option_key *
take_assignment(struct line *l, char *before, size_t size)
{
	const char *eq = strchr(l->typed, '=');

	if (strncmp(l->typed, "--", 2) != 0 || eq == NULL || (size_t)(eq - l->typed) + 2 > size)
		return NULL;
	snprintf(before, size, "%.*s", (int)(eq - l->typed), l->typed);
	const struct option_key *k = awaits_value(l, before);

	snprintf(before, size, "%.*s", (int)(eq - l->typed) + 1, l->typed);
	l->before = before;
	l->typed = eq + 1;
	return k;
}

static void
complete(struct line *l)
{
	const struct option_key *value = NULL;
	char before[84];
	int operands = 0;

	for (int i = 0; i + 1 < l->n; i++) {
		if (value == NULL && l->words[i][0] != '-')
			operands++;
		if (value != NULL && strcmp(value->name, "dsn") == 0)
			l->dsn = l->words[i];
		if (strncmp(l->words[i], "--dsn=", 6) == 0)
			l->dsn = l->words[i] + 6;
		value = value == NULL ? awaits_value(l, l->words[i]) : NULL;
	}
	if (value == NULL)
		value = take_assignment(l, before, sizeof before);
	if (value != NULL && value->type == OPTION_ENUM)
		offer_all(l, value->choices);
	else if (value != NULL)
		offer_things(l, option_thing(l, value));
	else if (l->typed[0] == '-')
		offer_options(l);
	else if (operands == 0 && first_words(l) != NULL)
		offer_all(l, first_words(l));
	else
		offer_things(l, operand_thing(l, operands));
}

static int
run_complete(int argc, char **argv)
{
	struct line l = {.typed = argc > 1 ? argv[argc - 1] : "", .before = ""};

	if (argc <= 2) {
		offer_commands(&l);
		return CLI_DONE;
	}
	l.cmd = cli_find(argv[1]);
	l.words = argv + 2;
	l.n = argc - 2;
	if (l.cmd != NULL)
		complete(&l);
	return CLI_DONE;
}

const struct command cmd_complete = {
    .name = "__complete",
    .group = GROUP_HIDDEN,
    .usage = "WORD...",
    .summary = "print what the last WORD may be completed to, for the completions of shells",
    .exec_argv = run_complete,
};
