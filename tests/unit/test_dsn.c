/* Nothing of a password is in what is said about a connection string, however malformed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(errors_have_no_password),
	    cmocka_unit_test(passwords_are_seen),
	    cmocka_unit_test(what_is_harmless_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
