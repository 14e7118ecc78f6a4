/* The schema's name in SQL texts: which `pgrab` is the schema's, and which names it may have. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db/schema.h"
#include "db/sql.h"

static void
names_are_plain(void **unused)
{
	static const char *const good[] = {
	    "pgrab", "a", "acme", "tenant_17", "pgrab2", "a23456789012345678901234567890"};
	static const char *const bad[] = {"", "A", "acme corp", "1st", "_a", "a-b", "a.b", "a\"b", "a'b",
	    "\xc3\xa4", "a234567890123456789012345678901", "public", "pg_toast", "information_schema",
	    "acme_internal", "acme_tool", "acme_sql", "order", "user", "time", "all", "xmltable", "json"};

	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_int_equal(schema_check(good[i], NULL), RC_OK);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct err err = {0};

		assert_int_equal(schema_check(bad[i], &err), RC_BAD);
		assert_non_null(strstr(err.text, "schema \""));
	}
}

static void
becomes(const char *text, const char *expected)
{
	char *got = schema_rewrite(text);

	assert_string_equal(got, expected);
	free(got);
}

static void
the_default_is_what_is_written(void **unused)
{
	assert_string_equal(schema_name(), "pgrab");
	assert_string_equal(schema_flag(), "");
	becomes("select 'pgrab', pgrab.why(1)", "select 'pgrab', pgrab.why(1)");
	assert_ptr_equal(sql_text("listen"), sql_text("listen"));
	assert_non_null(strstr(sql_text("listen"), "listen \"pgrab\""));
}

static void
another_name_is_put_where_the_schema_is_meant(void **unused)
{
	char *app;

	assert_int_equal(schema_use("Nope", NULL), RC_BAD);
	assert_string_equal(schema_name(), "pgrab");
	assert_int_equal(schema_use("acme", NULL), RC_OK);
	assert_string_equal(schema_name(), "acme");
	assert_string_equal(schema_flag(), " --schema acme");

	becomes("select pgrab.why(1), pgrab_internal.x, pgrab_tool.z, pgrab_sql.y from pgrab.\"limit\"",
	    "select acme.why(1), acme_internal.x, acme_tool.z, acme_sql.y from acme.\"limit\"");
	becomes("'pgrab'::regnamespace, listen \"pgrab\", pg_notify('pgrab', 'wish')",
	    "'acme'::regnamespace, listen \"acme\", pg_notify('acme', 'wish')");
	becomes("'alter table pgrab.%I', 'pgrab.' || x, set_config('pgrab.call', '', true)",
	    "'alter table acme.%I', 'acme.' || x, set_config('acme.call', '', true)");
	becomes("create schema pgrab; grant usage on schema pgrab, pgrab_internal to pgrab_node, pgrab_read",
	    "create schema acme; grant usage on schema acme, acme_internal to acme_node, acme_read");
	becomes("'{pgrab_owner,pgrab_kind_sql}', 'pgrab_kind_' || k, 'pgrab sql ' || n",
	    "'{acme_owner,acme_kind_sql}', 'acme_kind_' || k, 'acme sql ' || n");
	/* The program, its version, and other words. */
	becomes("start one: pgrab run; `pgrab show 1`; pgrab_version, pgrab_statement, pgrab: progress 1, "
		"pgrab's",
	    "start one: pgrab run; `pgrab show 1`; pgrab_version, pgrab_statement, pgrab: progress 1, "
	    "pgrab's");
	becomes("x_internal.pgrab_owner() of pgrab. And mypgrab.x",
	    "x_internal.pgrab_owner() of pgrab. And mypgrab.x");
	becomes("pgrab", "pgrab");

	assert_non_null(strstr(sql_text("listen"), "listen \"acme\""));
	assert_string_equal(app = schema_app("pgrab heartbeat"), "acme heartbeat");
	free(app);
	assert_string_equal(app = schema_app("somebody"), "somebody");
	free(app);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(names_are_plain),
	    cmocka_unit_test(the_default_is_what_is_written),
	    cmocka_unit_test(another_name_is_put_where_the_schema_is_meant),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
