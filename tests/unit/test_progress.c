/* Progress lines: what is one, in whatever pieces it comes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/progress.h"

static const struct sample {
	const char *line;
	bool found;
	double percent;
	const char *text;
} samples[] = {
    {"pgrab: progress 42 copying files", true, 42, "copying files"},
    {"pgrab: progress 42%", true, 42, ""},
    {"pgrab: progress 42.25 %x", true, 42.25, "%x"},
    {"pgrab: progress 0", true, 0, ""},
    {"pgrab: progress 100 done \t\r", true, 100, "done"},
    {"pgrab: progress   7   seven", true, 7, "seven"},
    {"pgrab: progress copying", true, -1, "copying"},
    {"pgrab: progress 101 over", true, -1, "101 over"},
    {"pgrab: progress 12345678901234567890", true, -1, "12345678901234567890"},
    {"pgrab: progress 7x", true, -1, "7x"},
    {"pgrab: progress -3", true, -1, "-3"},
    {"pgrab: progress 5 tab\tand \x1b[31m and \xff", true, 5, "tab and \\x1B[31m and \\xFF"},
    {"pgrab: progress ", false, 0, ""},
    {"pgrab: progress", false, 0, ""},
    {"pgrab: progress   ", false, 0, ""},
    {" pgrab: progress 1", false, 0, ""},
    {"Pgrab: progress 1", false, 0, ""},
    {"pgrab: progres 1", false, 0, ""},
    {"", false, 0, ""},
};

static void
check(const struct sample *s, size_t piece)
{
	struct progress_reader r = {0};
	struct progress p = {0};
	char line[300];
	bool found = false;
	size_t n = (size_t)snprintf(line, sizeof line, "x\n%s\n", s->line);

	for (size_t i = 0; i < n; i += piece)
		found = progress_read(&r, line + i, n - i < piece ? n - i : piece, &p) || found;
	assert_int_equal(found, s->found);
	if (s->found) {
		assert_true(fabs(p.percent - s->percent) < 0.001);
		assert_string_equal(p.text, s->text);
	}
}

static void
test_lines_in_pieces(void **state)
{
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		for (size_t piece = 1; piece < 60; piece++)
			check(&samples[i], piece);
	}
}

static void
test_only_whole_lines_count_and_the_last_wins(void **state)
{
	struct progress_reader r = {0};
	struct progress p = {0};
	static const char two[] = "pgrab: progress 1 a\npgrab: progress 2 b\npgrab: progress 3 c";

	assert_true(progress_read(&r, two, sizeof two - 1, &p));
	assert_string_equal(p.text, "b");
	assert_true(progress_read(&r, "d\n", 2, &p));
	assert_string_equal(p.text, "cd");
}

static void
test_a_line_without_end_takes_no_memory(void **state)
{
	struct progress_reader r = {0};
	struct progress p = {0};
	char flood[5000];

	memset(flood, 'y', sizeof flood);
	memcpy(flood, "pgrab: progress 9 ", 18);
	for (int i = 0; i < 100; i++)
		assert_false(progress_read(&r, flood + (i > 0 ? 18 : 0), sizeof flood - 18, &p));
	assert_true(progress_read(&r, "\n", 1, &p));
	assert_true(p.percent == 9);
	assert_true(strlen(p.text) <= PROGRESS_TEXT && strspn(p.text, "y") == strlen(p.text));
}

static void
test_an_executors_call_is_cut_and_made_printable(void **state)
{
	struct progress p;
	char *text = malloc(100001);

	memset(text, 'z', 100000);
	text[100000] = '\0';
	progress_set(&p, 250, text);
	assert_true(p.percent == 100 && strlen(p.text) == PROGRESS_TEXT);
	progress_set(&p, NAN, "a\nb");
	assert_true(p.percent == -1);
	assert_string_equal(p.text, "a b");
	progress_set(&p, -5, NULL);
	assert_true(p.percent == -1 && p.text[0] == '\0');
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines_in_pieces),
	    cmocka_unit_test(test_only_whole_lines_count_and_the_last_wins),
	    cmocka_unit_test(test_a_line_without_end_takes_no_memory),
	    cmocka_unit_test(test_an_executors_call_is_cut_and_made_printable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
