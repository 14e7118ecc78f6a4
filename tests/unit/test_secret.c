/* What is hidden of the values that were filled into a run's args. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/secret.h"

static void
hides(bool goes_on, const char *const *values, const char *text, const char *want)
{
	struct run r = {0};
	char *copy = xstrdup(text);
	size_t n = 0;

	while (values[n] != NULL)
		n++;
	r.task.secret = xcalloc(n, sizeof *r.task.secret);
	r.task.n_secrets = n;
	for (size_t i = 0; i < n; i++)
		r.task.secret[i] = xasprintf("NAME=%s", values[i]);
	secret_hide(&r, copy, goes_on);
	assert_string_equal(copy, want);
	secret_fini(&r);
	free(copy);
}

#define assert_hidden(...) hides(false, __VA_ARGS__)
#define VALUES(...)               \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

static void
each_byte_of_a_value_is_a_star(void **state)
{
	assert_hidden(VALUES("secret-1", "short"), "a secret-1 b secret-1secret-1 short",
	    "a ******** b **************** short");
	assert_hidden(VALUES("abcabcabcab"), "abcabcabcabcab", "**************"); /* it overlaps itself */
	assert_hidden(VALUES("secret-1"), "", "");
}

static void
a_value_in_another_hides_neither(void **state)
{
	assert_hidden(
	    VALUES("hunter2h", "app:hunter2h@db?key"), "to app:hunter2h@db?key.", "to *******************.");
	assert_hidden(VALUES("12345678", "56789abc"), "0123456789abcd", "0************d"); /* they overlap */
}

static void
a_line_of_a_value_is_hidden_too(void **state)
{
	assert_hidden(
	    VALUES("first line\nsecond line\nx\n"), "exit code 1: second line", "exit code 1: ***********");
	assert_hidden(VALUES("first line\nx\n"), "x", "x");
	assert_hidden(VALUES("first line\r\nsecond line\r\n"), "first line\nsecond line\n",
	    "**********\n***********\n");
}

static void
what_a_cut_has_left_is_hidden(void **state)
{
	assert_hidden(VALUES("0123456789"), "exit code 1: ...6789 and", "exit code 1: ...**** and");
	assert_hidden(VALUES("0123456789"), "exit code 1: ...789 and", "exit code 1: ...789 and");
	assert_hidden(VALUES("0123456789"), "a 012345\n... 77 bytes dropped ...\n6789 b",
	    "a ******\n... 77 bytes dropped ...\n**** b");
	assert_hidden(VALUES("0123456789"), "page 01234", "page 01234");
	hides(true, VALUES("0123456789"), "page 01234", "page *****");
	assert_hidden(VALUES("abababab1\r\nabababab2\r\n"), "...: ...abab2", "...: ...*****");
	assert_hidden(
	    VALUES("0123456789"), "0123 and 6789 are other numbers", "0123 and 6789 are other numbers");
}

static void
hiding_is_linear(void **state)
{
	char *value = xcalloc(60001, 1), *text = xcalloc(60001, 1);

	memset(value, 'a', 30000);
	memset(text, 'a', 60000);
	for (int i = 0; i < 20; i++) {
		struct run r = {.task.secret = (char *[]){xasprintf("N=%s", value)}, .task.n_secrets = 1};

		secret_hide(&r, text, true);
		assert_int_equal(strspn(text, "*"), 60000);
		memset(text, 'a', 60000);
		free(r.task.secret[0]);
	}
	free(value);
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_byte_of_a_value_is_a_star),
	    cmocka_unit_test(a_value_in_another_hides_neither),
	    cmocka_unit_test(a_line_of_a_value_is_hidden_too),
	    cmocka_unit_test(what_a_cut_has_left_is_hidden),
	    cmocka_unit_test(hiding_is_linear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
