/* Nothing of a password is in what is said about a connection string, however malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "db/dial.h"
#include "db/dsn.h"

/* Every one has the password made of these pieces, as its author sees it. */
static const char *const pieces[] = {"tiger", "sesame", "swordfish"};

static void
expect_nothing_said(const char *dsn)
{
	PGconn *conn = NULL;
	struct err err = {0};

	assert_int_not_equal(dial_server(dsn, "test", 3000000, false, NULL, &conn, &err), RC_OK);
	assert_true(strlen(err.text) > 10);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		if (strstr(err.text, pieces[i]) != NULL)
			fail_msg("%s: %s", dsn, err.text);
	}
}

static void
errors_have_no_password(void **state)
{
	static const char *const dsn[] = {"postgresql://scott:tiger@127.0.0.1:1/x",
	    "postgresql://scott:tig%zztiger@127.0.0.1:1/x", "postgresql://scott:tiger@sesame@127.0.0.1:1/x",
	    "postgresql://scott:tiger/sesame@127.0.0.1:1/x",
	    "postgresql://scott:tiger:sesame@127.0.0.1:portname/x",
	    "postgresql://scott:ti@tiger:sesame@127.0.0.1:1/x", "postgresql://scott:a?tiger@127.0.0.1:1/x",
	    "postgresql://127.0.0.1:1/x?password=tiger&sesame", "postgresql://127.0.0.1:1/x?passwort=tiger",
	    "postgresql://scott:tiger@[::1/x", "host=127.0.0.1 port=1 password=tiger sesame swordfish",
	    "host=127.0.0.1 port=1 password=a tiger=sesame", "password='tiger sesame",
	    "password=tiger port=1x", "postgresql://scott:a%zz\"tiger\"b@127.0.0.1:1/x",
	    "host=127.0.0.1 a\"tiger\" sesame", "postgresql://a:tiger@h1@sesame:1,h2:1/x"};

	for (size_t i = 0; i < sizeof dsn / sizeof *dsn; i++)
		expect_nothing_said(dsn[i]);
}

static void
passwords_are_seen(void **state)
{
	assert_true(dsn_has_password("postgresql://a:b@h/x") && dsn_has_password("host=h password=x"));
	assert_true(dsn_has_password("postgresql://h/x?password=b") && dsn_has_password("password='x"));
	assert_false(dsn_has_password("postgresql://a@h/x") || dsn_has_password("host=h user=u"));
	assert_false(dsn_has_password("") || dsn_has_password("mydb") || dsn_has_password("service=x"));
}

static void
what_is_harmless_stays(void **state)
{
	char text[200] = "could not translate host name \"db\" to address";

	dsn_hide("host=db user=u password=pq", text, sizeof text);
	assert_string_equal(text, "could not translate host name \"db\" to address");
	dsn_hide("host=db a", text, sizeof text);
	assert_string_equal(text, "could not translate host name \"***\"");
	snprintf(text, sizeof text, "missing \"=\" after \"a");
	dsn_hide("host=db a", text, sizeof text);
	assert_string_equal(text, "missing \"=\" after \"***\"");
}

static void
one_lies_over_another(void **state)
{
	static const struct {
		const char *base, *over, *made;
	} rows[] = {{"host=a dbname=b user=u", "dbname=c", "user='u' dbname='c' host='a'"},
	    {"postgresql://u@a/b", "host=z port=7", "user='u' dbname='b' host='z' port='7'"},
	    {"plain", "host=z", "dbname='plain' host='z'"}, {NULL, "dbname='it''s \\\\ \\''", NULL},
	    {"service='one'", "dbname=c", "service='one' dbname='c'"}, {"", "dbname='a b'", "dbname='a b'"},
	    {"host=a hostaddr=10.0.0.1", "host=z", "host='z'"},
	    {"hostaddr=10.0.0.1", "dbname=c", "dbname='c' hostaddr='10.0.0.1'"},
	    {"host=a", "nonsense=1", NULL}, {"host=a b", "dbname=c", NULL}};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char *made = dsn_over(rows[i].base, rows[i].over);
		PQconninfoOption *all = made == NULL ? NULL : PQconninfoParse(made, NULL);

		if (rows[i].made == NULL) {
			assert_null(made);
			continue;
		}
		assert_non_null(all);
		PQconninfoFree(all);
		assert_string_equal(made, rows[i].made);
		free(made);
	}
}

static void
a_login_is_seen(void **state)
{
	assert_false(dsn_has_login("host=a port=1 dbname=b"));
	assert_true(dsn_has_login("dbname=b user=u"));
	assert_true(dsn_has_login("service=other"));
	assert_true(dsn_has_login("postgresql://u@a/b"));
	assert_true(dsn_has_login("not a dsn="));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(errors_have_no_password),
	    cmocka_unit_test(passwords_are_seen),
	    cmocka_unit_test(what_is_harmless_stays),
	    cmocka_unit_test(one_lies_over_another),
	    cmocka_unit_test(a_login_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
