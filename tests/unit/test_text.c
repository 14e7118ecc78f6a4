/* What reaches the terminal: text.c and table.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include <libpq-fe.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "cli/table.h"
#include "cli/text.h"

static void
check(void (*print)(struct buf *, const char *), const char *in, const char *want)
{
	struct buf out = {0};

	print(&out, in);
	assert_string_equal(buf_str(&out), want);
	buf_fini(&out);
}

static void
line_shows_control_characters_as_escapes(void **state)
{
	check(text_line, "", "");
	check(text_line, "plain \xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80",
	    "plain \xc3\xa4\xe6\x97\xa5\xf0\x9f\x98\x80");
	check(text_line, "a\nb\tc\rd\033[2J\x7f", "a\\nb\\tc\\x0dd\\x1b[2J\\x7f");
	check(text_line,
	    "\xc2\x9b"
	    "31m",
	    "\\xc2\\x9b31m");
}

static void
line_shows_what_is_no_utf8_byte_by_byte(void **state)
{
	check(text_line, "\xff", "\\xff");
	check(text_line, "\xc3", "\\xc3");
	check(text_line, "\xe6\x97", "\\xe6\\x97");
	check(text_line, "\xc0\xaf", "\\xc0\\xaf");
	check(text_line, "\xed\xa0\x80z", "\\xed\\xa0\\x80z");
}

static void
block_keeps_newlines_and_tabs_and_ends_with_one(void **state)
{
	check(text_block, "", "");
	check(text_block, "a\tb\nc", "a\tb\nc\n");
	check(text_block, "a\r\nb\n", "a\nb\n");
	check(text_block, "\a\033c", "\\x07\\x1bc\n");
}

static void
json_escapes_what_the_server_leaves_raw(void **state)
{
	check(text_json, "{\"a\":\"\\u001b \xc3\xa4\"}", "{\"a\":\"\\u001b \xc3\xa4\"}\n");
	check(text_json, "\"\x7f\xc2\x9b\"", "\"\\u007f\\u009b\"\n");
	check(text_json, "[1, \n 2]", "[1, \n 2]\n");
	check(text_json, "\"exe\xe2\x80\xaetxt\"", "\"exe\\u202etxt\"\n");
	check(text_line, "exe\xe2\x80\xaetxt", "exe\\xe2\\x80\\xaetxt");
}

/* No byte below 0x20 but newline, no DEL, no C1, and always well-formed: whatever comes in. */
static void
nothing_random_gets_through(void **state)
{
	unsigned seed = 20261121;
	char in[64];

	print_message("# seed %u\n", seed);
	for (int round = 0; round < 20000; round++) {
		size_t n = (size_t)rand_r(&seed) % (sizeof in - 1);
		struct buf out = {0};

		for (size_t i = 0; i < n; i++)
			in[i] = (char)(1 + rand_r(&seed) % 255);
		in[n] = '\0';
		text_line(&out, in);
		for (size_t at = 0, len; at < out.len; at += len) {
			len = utf8_sequence(out.data + at, out.len - at);
			assert_int_not_equal(len, 0);
			assert_false(utf8_is_control(out.data + at, len));
		}
		assert_true(text_width(buf_str(&out)) <= out.len);
		for (size_t columns = 0; columns < 8; columns++) {
			size_t fit = text_fit(buf_str(&out), columns);

			assert_true(fit <= out.len);
			if (fit < out.len)
				assert_int_not_equal(utf8_sequence(buf_str(&out) + fit, out.len - fit), 0);
		}
		buf_fini(&out);
	}
}

static void
width_counts_columns_not_bytes(void **state)
{
	assert_int_equal(text_width(""), 0);
	assert_int_equal(text_width("abc"), 3);
	assert_int_equal(text_width("\xc3\xa4\xc3\xb6"), 2);
	assert_int_equal(text_width("\xe6\x97\xa5\xe6\x9c\xac"), 4);
	assert_int_equal(text_width("a\xcc\x88"), 1);
	assert_int_equal(text_fit("\xe6\x97\xa5\xe6\x9c\xac", 3), 3);
	assert_int_equal(text_fit("abc", 0), 0);
	assert_int_equal(text_fit("abc", 9), 3);
}

static PGresult *
result(void)
{
	char id[] = "id", name[] = "name", wide[] = "1000";
	PGresAttDesc columns[] = {{.name = id, .typid = 20}, {.name = name, .typid = 25}};
	PGresult *r = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
	char kanji[] = "\xe6\x97\xa5\xe6\x9c\xac\n", seven[] = "7";

	assert_int_equal(PQsetResultAttrs(r, 2, columns), 1);
	assert_int_equal(PQsetvalue(r, 0, 0, seven, 1), 1);
	assert_int_equal(PQsetvalue(r, 0, 1, kanji, (int)strlen(kanji)), 1);
	assert_int_equal(PQsetvalue(r, 1, 0, wide, 4), 1);
	assert_int_equal(PQsetvalue(r, 1, 1, NULL, -1), 1);
	return r;
}

static void
table_aligns_numbers_right_and_trims_the_end(void **state)
{
	struct screen screen = {0};
	struct buf out = {0};
	PGresult *r = result();

	table_print(&out, r, &screen);
	assert_string_equal(buf_str(&out), "  id  name\n   7  \xe6\x97\xa5\xe6\x9c\xac\\n\n1000\n");
	buf_fini(&out);
	PQclear(r);
}

static void
table_is_cut_at_the_screen_before_it_is_colored(void **state)
{
	struct screen screen = {.columns = 8, .color = true};
	struct buf out = {0};
	PGresult *r = result();

	table_print(&out, r, &screen);
	assert_string_equal(buf_str(&out), "\033[1m  id  na\033[0m\n   7  \xe6\x97\xa5\n1000\n");
	buf_fini(&out);
	PQclear(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(line_shows_control_characters_as_escapes),
	    cmocka_unit_test(line_shows_what_is_no_utf8_byte_by_byte),
	    cmocka_unit_test(block_keeps_newlines_and_tabs_and_ends_with_one),
	    cmocka_unit_test(json_escapes_what_the_server_leaves_raw),
	    cmocka_unit_test(nothing_random_gets_through),
	    cmocka_unit_test(width_counts_columns_not_bytes),
	    cmocka_unit_test(table_aligns_numbers_right_and_trims_the_end),
	    cmocka_unit_test(table_is_cut_at_the_screen_before_it_is_colored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
