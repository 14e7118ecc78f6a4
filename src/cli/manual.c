/* pgrab(1) and pgrab.conf(5), and the example of the latter. */
#include "cli/manual.h"

#include <string.h>

#include "cli/cli.h"
#include "node/settings/settings.h"

/* Does every command have it, with the same meaning? */
static bool
is_common(const struct option_key *k)
{
	const struct option_key *common = option_find(cli_common_keys, k->name);

	return common != NULL && strcmp(common->help, k->help) == 0;
}

static void
add_default(struct buf *text, const struct option_key *k)
{
	if (k->fallback != NULL && k->type != OPTION_FLAG && !k->secret)
		buf_addf(text, " (default %s)", k->fallback);
}

/* "-w, --workers" */
static void
flag_name(struct buf *out, const struct option_key *k)
{
	if (k->letter != 0)
		buf_addf(out, "-%c, ", k->letter);
	buf_adds(out, "--");
	for (const char *p = k->name; *p != '\0'; p++)
		buf_addc(out, *p == '_' ? '-' : *p);
}

static void
put_option(struct buf *out, const struct option_key *k)
{
	AUTO_BUF struct buf name = {0}, text = {0};

	flag_name(&name, k);
	buf_adds(&text, k->help);
	add_default(&text, k);
	manual_item(out, buf_str(&name), k->type == OPTION_FLAG ? NULL : option_metavar(k), buf_str(&text));
}

static void
put_command(struct buf *out, const struct command *c)
{
	AUTO_BUF struct buf line = {0};

	buf_addf(&line, "pgrab %s %s", c->name, c->usage);
	manual_subsection(out, buf_str(&line));
	buf_reset(&line);
	buf_addf(&line, "%c%s.",
	    *c->summary >= 'a' && *c->summary <= 'z' ? *c->summary - 'a' + 'A' : *c->summary, c->summary + 1);
	manual_text(out, buf_str(&line));
	if (c->details != NULL)
		manual_paragraph(out, c->details);
	if (c->options == settings_keys) {
		manual_paragraph(out, "Its options are the settings of pgrab.conf(5): --dead-after 10s is "
				      "dead_after = 10s there.");
		return;
	}
	for (const struct option_key *k = c->options; k != NULL && k->name != NULL; k++) {
		if (!is_common(k))
			put_option(out, k);
	}
}

static void
put_commands(struct buf *out)
{
	for (int g = 0; g < GROUP__COUNT; g++) {
		AUTO_BUF struct buf title = {0};

		for (const char *p = cli_group_title((enum command_group)g); *p != '\0'; p++)
			buf_addc(&title, *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p);
		manual_section(out, buf_str(&title));
		for (const struct command *const *c = cli_commands; *c != NULL; c++) {
			if ((int)(*c)->group == g)
				put_command(out, *c);
		}
	}
}

static void
put_environment(struct buf *out)
{
	manual_section(out, "ENVIRONMENT");
	manual_item(out, "PGRAB_DSN", NULL,
	    "the database, where --dsn is not given; before PGHOST, PGDATABASE, "
	    "PGSERVICE and the others that psql(1) reads");
	manual_item(
	    out, "PGRAB_...", NULL, "settings of `pgrab run`, as in pgrab.conf(5): PGRAB_WORKERS is workers");
	manual_item(
	    out, "PGTZ, TZ", NULL, "the time zone in which times are shown; default: that of the machine");
	manual_item(out, "NO_COLOR", NULL, "no colours, if it is not empty");
}

static void
page_program(struct buf *out)
{
	manual_head(out, "PGRAB", "1", "pgrab", "a distributed task scheduler on PostgreSQL");
	manual_section(out, "SYNOPSIS");
	buf_adds(out, "\\fBpgrab\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]\n");
	manual_section(out, "DESCRIPTION");
	manual_text(out, "A task is a row of the table pgrab.task that any program inserts, in any language, "
			 "inside its own transaction. Nodes, each a process `pgrab run`, find the rows that "
			 "are due, divide them among each other, run each one when it is due, and record "
			 "what happened. There is no master and no other service than the database. The "
			 "tables, views and functions are described in pgrab(7), the settings of a node in "
			 "pgrab.conf(5).");
	manual_paragraph(out, "TASK is the id, the key or the name of a task; a name that several tasks "
			      "share is refused with the list of them.");
	manual_section(out, "COMMON OPTIONS");
	for (const struct option_key *k = cli_common_keys; k->name != NULL; k++)
		put_option(out, k);
	put_commands(out);
	put_environment(out);
	manual_section(out, "EXIT STATUS");
	manual_text(out, "0 done, 1 failed, 2 wrong usage, 3 no such thing.");
	manual_see_also(out, ".BR pgrab.conf (5),\n.BR pgrab (7),\n.BR psql (1)");
}

/* The value as the file takes it. */
static const char *
file_value(const struct option_key *k)
{
	if (k->type == OPTION_FLAG)
		return "on|off";
	return option_metavar(k);
}

static void
put_setting(struct buf *out, const struct option_key *k)
{
	AUTO_BUF struct buf name = {0}, text = {0};
	char may_be[256];

	buf_addf(&name, "%s =", k->name);
	buf_addf(&text, "%s", k->help);
	add_default(&text, k);
	if (k->type != OPTION_TEXT) {
		option_describe(k, may_be, sizeof may_be);
		buf_addf(&text, ". It is %s.", may_be);
	}
	manual_item(out, buf_str(&name), file_value(k), buf_str(&text));
}

/* Keys that belong below a line [word NAME]. */
static void
put_section(struct buf *out, const struct option_section *section)
{
	AUTO_BUF struct buf title = {0};

	buf_addf(&title, "KEYS OF [%s NAME]", section->word);
	manual_section(out, buf_str(&title));
	manual_text(out, section->about);
	for (const struct option_key *k = section->table; k->name != NULL; k++)
		put_setting(out, k);
}

static void
page_config(struct buf *out)
{
	manual_head(out, "PGRAB.CONF", "5", "pgrab.conf", "settings of a pgrab node");
	manual_section(out, "DESCRIPTION");
	manual_text(out,
	    "`pgrab run --config FILE` reads lines `key = value`. A line that begins with # or ; is a "
	    "comment. "
	    "A line has at most 64 KiB. An unknown key is refused, and the nearest known one named.");
	manual_paragraph(out, "Every key is also an option of `pgrab run`, --dead-after for dead_after, and "
			      "a variable of its environment, PGRAB_DEAD_AFTER. The option goes before the "
			      "file, the file before the environment. Settings are read when the node "
			      "starts.");
	manual_paragraph(out, "Times are whole numbers with a unit: 200ms, 5s, 10m, 1h, 7d.");
	manual_section(out, "KEYS");
	for (const struct option_key *k = settings_keys; k->name != NULL; k++) {
		if (strcmp(k->name, "config") != 0)
			put_setting(out, k);
	}
	for (const struct option_section *section = settings_sections; section->word != NULL; section++)
		put_section(out, section);
	manual_section(out, "FILES");
	manual_item(out, "/etc/pgrab/main.conf", NULL, "the settings of the unit pgrab@main.service");
	manual_section(out, "EXAMPLE");
	buf_adds(out, ".nf\n"
		      "dsn = host=/run/postgresql dbname=app\n"
		      "workers = 16\n"
		      "allow = sql,shell,http,notify,noop\n"
		      "labels = zone=eu,disk=ssd\n.fi\n");
	manual_see_also(out, ".BR pgrab (1),\n.BR pgrab (7)");
}

bool
manual_page(const char *name, struct buf *out)
{
	static const struct {
		const char *name;
		void (*print)(struct buf *out);
	} pages[] = {{"pgrab.1", page_program}, {"pgrab.conf.5", page_config}, {"pgrab.7", manual_sql}};

	for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
		if (strcmp(pages[i].name, name) == 0) {
			pages[i].print(out);
			return true;
		}
	}
	return false;
}

static void
put_comment(struct buf *out, const char *text)
{
	buf_adds(out, "# ");
	buf_wrap(out, text, 89, "# ");
}

static void
put_example(struct buf *out, const struct option_key *k)
{
	put_comment(out, k->help);
	if (k->fallback == NULL)
		buf_addf(out, "#%s =%s\n", k->name, k->type == OPTION_FLAG ? " off" : "");
	else
		buf_addf(out, "#%s = %s\n", k->name, k->fallback);
}

void
manual_example_config(struct buf *out)
{
	buf_adds(out, "# Settings of a pgrab node: `pgrab run --config THIS_FILE`; see pgrab.conf(5).\n"
		      "# What is commented out has the default that is shown.\n");
	for (const struct option_key *k = settings_keys; k->name != NULL; k++) {
		if (strcmp(k->name, "config") == 0)
			continue;
		buf_addc(out, '\n');
		put_example(out, k);
	}
	for (const struct option_section *s = settings_sections; s->word != NULL; s++) {
		buf_adds(out, "\n\n");
		put_comment(out, s->about);
		buf_addf(out, "#[%s NAME]\n", s->word);
		for (const struct option_key *k = s->table; k->name != NULL; k++) {
			buf_addc(out, '\n');
			put_example(out, k);
		}
	}
}
