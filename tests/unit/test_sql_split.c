/* Where SQL statements end; and the text form of arrays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db/pg.h"
#include "db/sql_split.h"

static void
expect(const char *text, size_t n, const char *first, const char *last)
{
	struct sql_part part[10];

	assert_int_equal(sql_split(text, part, 10), n);
	if (n == 0)
		return;
	assert_memory_equal(part[0].start, first, strlen(first));
	assert_memory_equal(part[n - 1].start + part[n - 1].len - strlen(last), last, strlen(last));
}

static void
statements_end_at_top_level_semicolons(void **unused)
{
	expect("select 1", 1, "select 1", "select 1");
	expect("select 1; select 2;", 2, "select 1", " select 2");
	expect("select ';'; select \";\"", 2, "select ';'", "\";\"");
	expect("select 'it''s;'; x", 2, "select 'it''s;'", " x");
	expect("select E'\\';'; x", 2, "select E'\\';'", " x");
	expect("select '\\'; x", 2, "select '\\'", " x"); /* no escapes in plain strings */
	expect("select 1 -- ; \n; x", 2, "select 1", " x");
	expect("select /* ; /* ; */ ; */ 1; x", 2, "select", " x");
	expect("do $$ begin ; end $$; x", 2, "do $$", " x");
	expect("do $a$ $$ ; $b$ ; $a$; x", 2, "do $a$", " x");
	expect("select $1; x", 2, "select $1", " x");
	expect("create rule r as on insert to t do (select 1; select 2); x", 2, "create rule", " x");
	expect(
	    "create function f() returns int begin atomic select 1; select case when true then 1 end; end; x",
	    2, "create function", " x");
	expect("begin; x", 2, "begin", " x");
}

static void
empty_statements_and_lone_comments_are_left_out(void **unused)
{
	expect("", 0, NULL, NULL);
	expect(" ;; ; -- x\n ; /* y */ ", 0, NULL, NULL);
	expect(";;select 1;; -- end", 1, "select 1", "select 1");
}

static void
what_never_ends_is_one_statement(void **unused)
{
	expect("select 'abc; x", 1, "select", "x");
	expect("select $q$ ; x", 1, "select", "x");
	expect("select /* ; x", 1, "select", "");
	expect("select (1; x", 1, "select", "x");
}

static void
too_many_are_counted_no_further(void **unused)
{
	struct sql_part part[3];

	assert_int_equal(sql_split("a;b;c", part, 3), 3);
	assert_int_equal(sql_split("a;b;c;d;e", part, 3), 4);
}

static void
arrays_are_written_as_the_server_reads_them(void **unused)
{
	struct pgarray a = {0};

	assert_string_equal(pgarray_str(&a), "{}");
	pgarray_int(&a, 0);
	pgarray_int(&a, -1);
	pgarray_int(&a, INT64_MIN);
	pgarray_int(&a, INT64_MAX);
	assert_string_equal(pgarray_str(&a), "{0,-1,-9223372036854775808,9223372036854775807}");
	pgarray_fini(&a);
	pgarray_text(&a, "");
	pgarray_text(&a, "a\"b\\c,{}");
	pgarray_text(&a, NULL);
	pgarray_text(&a, "NULL");
	assert_string_equal(pgarray_str(&a), "{\"\",\"a\\\"b\\\\c,{}\",NULL,\"NULL\"}");
	pgarray_fini(&a);
	assert_null(pgarray_sparse(&a));
	pgarray_null(&a);
	pgarray_text(&a, NULL);
	assert_null(pgarray_sparse(&a));
	pgarray_text(&a, "");
	assert_string_equal(pgarray_sparse(&a), "{NULL,NULL,\"\"}");
	pgarray_fini(&a);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(statements_end_at_top_level_semicolons),
	    cmocka_unit_test(empty_statements_and_lone_comments_are_left_out),
	    cmocka_unit_test(what_never_ends_is_one_statement),
	    cmocka_unit_test(too_many_are_counted_no_further),
	    cmocka_unit_test(arrays_are_written_as_the_server_reads_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
