/* What is hidden of the values that were filled into a run's args. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/secret.h"

static void
assert_hidden(const char *const *values, size_t n, const char *text, const char *want)
{
	struct run r = {0};
	char *copy = xstrdup(text);

	r.task.secret = xcalloc(n, sizeof *r.task.secret);
	r.task.n_secrets = n;
	for (size_t i = 0; i < n; i++)
		r.task.secret[i] = xasprintf("NAME=%s", values[i]);
	secret_hide(&r, copy);
	assert_string_equal(copy, want);
	secret_fini(&r);
	free(copy);
}

#define VALUES(...) (const char *const[]){__VA_ARGS__}, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)

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
}

static void
what_a_cut_has_left_is_hidden(void **state)
{
	assert_hidden(VALUES("0123456789"), "exit code 1: ...6789 and", "exit code 1: ...**** and");
	assert_hidden(VALUES("0123456789"), "exit code 1: ...789 and", "exit code 1: ...789 and");
	assert_hidden(VALUES("0123456789"), "a 012345\n... 77 bytes dropped ...\n6789 b",
	    "a ******\n... 77 bytes dropped ...\n**** b");
	assert_hidden(VALUES("0123456789"), "killed by signal 9: 01234", "killed by signal 9: *****");
	assert_hidden(
	    VALUES("0123456789"), "0123 and 6789 are other numbers", "0123 and 6789 are other numbers");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(each_byte_of_a_value_is_a_star),
	    cmocka_unit_test(a_value_in_another_hides_neither),
	    cmocka_unit_test(a_line_of_a_value_is_hidden_too),
	    cmocka_unit_test(what_a_cut_has_left_is_hidden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
