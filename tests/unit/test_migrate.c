/* What the texts of the migrations are, as far as no server can tell. */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "db/migrate.h"
#include "db/sql_split.h"

#define PARTS 2000

/* Calls fn for each statement of all migrations; returns how many there are. */
static size_t
each_statement(void (*fn)(const char *file, const char *statement))
{
	static struct sql_part part[PARTS];
	size_t all = 0;

	for (int api = 0; api < 2; api++) {
		for (const struct sql_file *f = api ? sql_api : sql_migrations; f->name != NULL; f++) {
			size_t n = sql_split(f->text, part, PARTS);

			assert_in_range(n, 1, PARTS);
			all += n;
			for (size_t i = 0; i < n; i++) {
				char *s = xmemdup0(part[i].start, part[i].len);

				fn(f->name, s);
				free(s);
			}
		}
	}
	return all;
}

/* Past blanks and comments. */
static const char *
first_word(const char *s)
{
	for (;;) {
		while (isspace((unsigned char)*s))
			s++;
		if (strncmp(s, "--", 2) != 0)
			return s;
		s += strcspn(s, "\n");
	}
}

static void
begins_with_a_verb(const char *file, const char *statement)
{
	static const char *const verbs[] = {"alter", "comment", "create", "delete", "do", "drop", "grant",
	    "insert", "revoke", "select", "set", "update"};
	const char *word = first_word(statement);
	size_t n = 0;

	while (isalpha((unsigned char)word[n]))
		n++;
	for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++) {
		if (strlen(verbs[i]) == n && strncmp(word, verbs[i], n) == 0)
			return;
	}
	fail_msg("%s: cut in the wrong place before: %.60s", file, word);
}

static void
texts_are_cut_where_statements_end(void **unused)
{
	assert_true(each_statement(begins_with_a_verb) > 1000);
}

/* `alter table x add a, drop b`, also inside a function or a text that is executed: a comma outside of
 * parentheses, up to where the statement ends. */
static void
alters_one_thing(const char *file, const char *statement)
{
	for (const char *s = statement; (s = strstr(s, "alter table ")) != NULL; s++) {
		int parens = 0;

		for (const char *p = s; *p != '\0' && *p != ';' && *p != '\'' && parens >= 0; p++) {
			parens += *p == '(' ? 1 : *p == ')' ? -1 : 0;
			if (*p == ',' && parens == 0)
				fail_msg("%s: several subcommands: %.80s", file, s);
		}
	}
}

static void
alter_table_has_one_subcommand(void **unused)
{
	each_statement(alters_one_thing);
}

/* `execute 'create ...; create ...'`, also through format(): a semicolon in its first text, which ends at
 * a comma or a semicolon outside of quotes. */
static void
executes_one_thing(const char *file, const char *statement)
{
	for (const char *s = statement; (s = strstr(s, "execute ")) != NULL; s++) {
		const char *p = s + strlen("execute ");
		bool quoted = false;

		p += strncmp(p, "format(", 7) == 0 ? strlen("format(") : 0;
		p += strspn(p, " \n");
		if (*p != '\'')
			continue; /* a trigger's function, or a right */
		for (; *p != '\0' && (quoted || (*p != ';' && *p != ',')); p++) {
			quoted ^= *p == '\'';
			if (*p == ';')
				fail_msg("%s: several statements: %.80s", file, s);
		}
	}
}

static void
execute_has_one_statement(void **unused)
{
	each_statement(executes_one_thing);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(texts_are_cut_where_statements_end),
	    cmocka_unit_test(alter_table_has_one_subcommand),
	    cmocka_unit_test(execute_has_one_statement),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
