/* The one place where a schema's name is put into SQL. */
#include "db/schema.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "db/sql.h"

#define DEFAULT_LEN (sizeof SCHEMA_DEFAULT - 1)

static char in_use[SCHEMA_NAME_MAX + 1] = SCHEMA_DEFAULT;
static char flag[SCHEMA_NAME_MAX + 12];

/* All words but the unreserved ones, of PostgreSQL 15 to 18: as a name they would need quotes somewhere. */
static const char keywords[] =
    " all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean "
    "both case cast char character check coalesce collate collation column concurrently constraint create "
    "cross current_catalog current_date current_role current_schema current_time current_timestamp "
    "current_user dec decimal default deferrable desc distinct do else end except exists extract false fetch "
    "float for foreign freeze from full grant greatest group grouping having ilike in initially inner inout "
    "int integer intersect interval into is isnull join json json_array json_arrayagg json_exists "
    "json_object json_objectagg json_query json_scalar json_serialize json_table json_value lateral leading "
    "least left like limit localtime localtimestamp merge_action national natural nchar none normalize not "
    "notnull null nullif numeric offset on only or order out outer overlaps overlay placing position "
    "precision primary real references returning right row select session_user setof similar smallint some "
    "substring symmetric system_user table tablesample then time timestamp to trailing treat trim true union "
    "unique user using values varchar variadic verbose when where window with xmlattributes xmlconcat "
    "xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable ";

static bool
word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

static bool
ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* A name that PostgreSQL uses, or that the internal schema of another pgrab would have. */
static bool
taken(const char *name)
{
	char word[SCHEMA_NAME_MAX + 3];

	snprintf(word, sizeof word, " %s ", name);
	return strstr(keywords, word) != NULL || strncmp(name, "pg_", 3) == 0 ||
	       strcmp(name, "public") == 0 || strcmp(name, "information_schema") == 0 ||
	       ends_in(name, "_internal") || ends_in(name, "_tool") || ends_in(name, "_sql");
}

enum rc
schema_check(const char *name, struct err *err)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

	if (n == 0 || n > SCHEMA_NAME_MAX || name[n] != '\0' || !islower((unsigned char)name[0]))
		return err_set(err, RC_BAD,
		    "schema \"%.60s\": 1 to %d lower-case letters, digits and underscores, a letter first",
		    name, SCHEMA_NAME_MAX);
	if (taken(name))
		return err_set(err, RC_BAD,
		    "schema \"%s\": this name is reserved; choose one that is not a word of SQL, does not "
		    "begin with pg_ and does not end in _internal, _tool or _sql",
		    name);
	return RC_OK;
}

enum rc
schema_use(const char *name, struct err *err)
{
	enum rc rc = schema_check(name, err);

	if (rc != RC_OK || strcmp(name, in_use) == 0)
		return rc;
	snprintf(in_use, sizeof in_use, "%s", name);
	snprintf(flag, sizeof flag, " --schema %s", in_use);
	sql_rewrite();
	return RC_OK;
}

const char *
schema_name(void)
{
	return in_use;
}

const char *
schema_flag(void)
{
	return flag;
}

/* What follows the name in those of the other schemas and of the roles. */
static bool
is_suffix(const char *s)
{
	static const char *const suffixes[] = {
	    "_internal", "_tool", "_sql", "_owner", "_node", "_submit", "_operator", "_read", "_serve"};

	if (strncmp(s, "_kind_", 6) == 0)
		return true;
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		size_t n = strlen(suffixes[i]);

		if (strncmp(s, suffixes[i], n) == 0 && !word_char(s[n]))
			return true;
	}
	return false;
}

/* Is the word at p the schema's name, and neither the program's nor part of another word? */
static bool
is_name(const char *text, const char *p)
{
	static const char schema[] = "schema ";
	char before = p > text ? p[-1] : '\n', after = p[DEFAULT_LEN],
	     then = after == '\0' ? '\0' : p[DEFAULT_LEN + 1];
	size_t left = (size_t)(p - text);

	if (word_char(before) || before == '.')
		return false;
	if (after == '.')
		return then != '\0' && !isspace((unsigned char)then);
	if (after == '_')
		return is_suffix(p + DEFAULT_LEN);
	if (before == '\'' || before == '"')
		return after == before || (before == '\'' && after == ' ');
	return !word_char(after) && left >= sizeof schema - 1 &&
	       strncmp(p - (sizeof schema - 1), schema, sizeof schema - 1) == 0;
}

char *
schema_rewrite(const char *text)
{
	AUTO_BUF struct buf out = {0};
	const char *from = text;

	if (strcmp(in_use, SCHEMA_DEFAULT) == 0)
		return xstrdup(text);
	for (const char *p = text; (p = strstr(p, SCHEMA_DEFAULT)) != NULL; p += DEFAULT_LEN) {
		if (!is_name(text, p))
			continue;
		buf_add(&out, from, (size_t)(p - from));
		buf_adds(&out, in_use);
		from = p + DEFAULT_LEN;
	}
	buf_adds(&out, from);
	return xstrdup(buf_str(&out));
}

char *
schema_app(const char *app)
{
	bool ours = strncmp(app, SCHEMA_DEFAULT " ", DEFAULT_LEN + 1) == 0;

	return ours ? xasprintf("%s%s", in_use, app + DEFAULT_LEN) : xstrdup(app);
}
