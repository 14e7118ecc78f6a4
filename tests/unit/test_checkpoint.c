/* Checkpoint lines: what is one, in whatever pieces it comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/checkpoint.h"

/* The last one that is found when the text comes in pieces of this size. */
static void
expect(const char *all, size_t n, size_t piece, const char *want)
{
	struct checkpoint_reader r = {0};
	char *last = NULL, *text;

	for (size_t at = 0; at < n; at += piece) {
		if (checkpoint_read(&r, all + at, n - at < piece ? n - at : piece, &text)) {
			free(last);
			last = text;
		}
	}
	if (want == NULL)
		assert_null(last);
	else
		assert_string_equal(last, want);
	free(last);
	checkpoint_fini(&r);
}

static void
test_lines_in_pieces(void **state)
{
	static const struct {
		const char *text, *want;
	} samples[] = {
	    {"pgrab: checkpoint page 7\n", "page 7"},
	    {"begin\npgrab: checkpoint {\"at\": 7}\r\nend\n", "{\"at\": 7}"},
	    {"pgrab: checkpoint one\npgrab: checkpoint two\nx", "two"},
	    {"pgrab: checkpoint \n", ""},
	    {"pgrab: checkpoint  two blanks \n", " two blanks "},
	    {"pgrab: checkpoint one\npgrab: checkpoint cut", "one"},
	    {"pgrab: checkpoint\n", NULL},
	    {"pgrab: checkpoints 7\n", NULL},
	    {" pgrab: checkpoint 7\n", NULL},
	    {"pgrab: pgrab: checkpoint 7\n", NULL},
	    {"pgrab: progress 7\n\n\n", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
		for (size_t piece = 1; piece < 40; piece++)
			expect(samples[i].text, strlen(samples[i].text), piece, samples[i].want);
	}
}

static void
test_one_that_is_too_long_is_none(void **state)
{
	static char line[2 * CHECKPOINT_MAX];
	static const char start[] = "pgrab: checkpoint ";
	size_t at = sizeof start - 1;

	(void)state;
	memset(line, 'x', sizeof line);
	memcpy(line, start, at);
	line[at + CHECKPOINT_MAX] = '\n';
	for (size_t piece = 4096; piece <= sizeof line; piece *= 4) {
		char *want = malloc(CHECKPOINT_MAX + 1);

		memset(want, 'x', CHECKPOINT_MAX);
		want[CHECKPOINT_MAX] = '\0';
		expect(line, at + CHECKPOINT_MAX + 1, piece, want);
		free(want);
	}
	line[at + CHECKPOINT_MAX] = 'x';
	line[sizeof line - 1] = '\n';
	expect(line, sizeof line, 4096, NULL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_lines_in_pieces),
	    cmocka_unit_test(test_one_that_is_too_long_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
