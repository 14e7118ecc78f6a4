/*
 * Lists of pairs: what is built comes back, and anything else is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/netstr.h"
#include "random.h"

static void
add_string(struct buf *b, const char *s)
{
	buf_addf(b, "%zu:%s,", strlen(s), s);
}

/* Any bytes but NUL, and often those that mean something to the parser. */
static char *
random_string(void)
{
	static const char special[] = "0123456789:,";
	size_t n = random_below(4) == 0 ? random_below(300) : random_below(6);
	char *s = xcalloc(n + 1, 1);

	for (size_t i = 0; i < n; i++)
		s[i] = random_below(2) == 0 ? special[random_below(sizeof special - 1)]
					    : (char)(random_below(255) + 1);
	return s;
}

/* The exact bytes and nothing behind them, so that reading too far is seen by ASan. */
static enum rc
parse(const char *text, size_t n, struct pairs *out, struct err *err)
{
	char *copy = malloc(n > 0 ? n : 1);
	enum rc rc;

	assert_non_null(copy);
	if (n > 0)
		memcpy(copy, text, n);
	rc = pairs_parse(copy, n, out, err);
	free(copy);
	return rc;
}

static void
pairs_come_back_as_they_were_put_in(void **state)
{
	random_start();
	for (int round = 0; round < 500; round++) {
		unsigned n = random_below(20);
		struct buf b = {0};
		struct pairs p;
		char *s[40];

		for (unsigned i = 0; i < 2 * n; i++) {
			s[i] = random_string();
			add_string(&b, s[i]);
		}
		assert_int_equal(parse(buf_str(&b), b.len, &p, NULL), RC_OK);
		assert_int_equal(p.count, n);
		for (unsigned i = 0; i < n; i++) {
			assert_string_equal(p.item[i].key, s[2 * i]);
			assert_string_equal(p.item[i].value, s[2 * i + 1]);
		}
		for (unsigned i = 0; i < 2 * n; i++)
			free(s[i]);
		pairs_fini(&p);
		buf_fini(&b);
	}
}

static void
pairs_get_gives_the_first_value_of_a_key(void **state)
{
	static const char text[] = "3:env,3:A=1,3:env,3:B=2,0:,0:,";
	struct pairs p;

	assert_int_equal(parse(text, sizeof text - 1, &p, NULL), RC_OK);
	assert_string_equal(pairs_get(&p, "env"), "A=1");
	assert_string_equal(pairs_get(&p, ""), "");
	assert_null(pairs_get(&p, "en"));
	pairs_fini(&p);
	pairs_fini(&p);
	assert_null(pairs_get(&p, "env"));
}

static void
pairs_of_an_empty_text_are_none(void **state)
{
	struct pairs p;

	assert_int_equal(parse("", 0, &p, NULL), RC_OK);
	assert_int_equal(p.count, 0);
	pairs_fini(&p);
}

static void
pairs_malformed_are_refused(void **state)
{
	static const char *const bad[] = {
	    "1",
	    "1:",
	    "1:a",
	    "1:a,",
	    ":a,1:b,",
	    ",",
	    "a:1,",
	    "1:a,1:b",
	    "1:a,1:b;",
	    "1:a,2:b,",
	    "2:a,1:b,",
	    "1:ab,1:b,",
	    "-1:a,1:b,",
	    "+1:a,1:b,",
	    " 1:a,1:b,",
	    "1 :a,1:b,",
	    "01:a,1:b,",
	    "00:,1:b,",
	    "1:a,1:b,1:c,",
	    "1:a,1:b, ",
	    "1:a,1:b,\n",
	    "0x1:a,1:b,",
	    "18446744073709551617:a,1:b,",
	    "99999999999999999999999999:a,1:b,",
	    "18446744073709551615:a,1:b,",
	};

	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct err err = {.text = ""};
		struct pairs p;

		assert_int_equal(parse(bad[i], strlen(bad[i]), &p, &err), RC_BAD);
		assert_string_not_equal(err.text, "");
		assert_int_equal(p.count, 0);
		assert_null(p.item);
		assert_null(p.memory);
	}
}

static void
pairs_with_a_nul_are_refused(void **state)
{
	static const char text[] = "3:a\0b,1:c,";
	struct pairs p;

	assert_int_equal(parse(text, sizeof text - 1, &p, NULL), RC_BAD);
}

/* Whatever is cut off or changed: refused, or still a list; never a read past the end. */
static void
pairs_damaged_at_random_do_no_harm(void **state)
{
	static const char text[] = "3:env,7:PATH=/x,4:argv,2:-l,4:argv,10:0123456789,";
	size_t n = sizeof text - 1;
	struct pairs p;

	random_start();
	for (size_t i = 1; i < n; i++) {
		enum rc rc = parse(text, i, &p, NULL);

		assert_true(rc == RC_BAD || i == 16 || i == 28);
		pairs_fini(&p);
	}
	for (int round = 0; round < 5000; round++) {
		char copy[sizeof text];
		unsigned at = random_below((unsigned)n);

		memcpy(copy, text, sizeof text);
		copy[at] = (char)random_below(256);
		copy[random_below((unsigned)n)] = ",:0129"[random_below(6)];
		if (parse(copy, n, &p, NULL) == RC_OK)
			assert_true(p.count <= n / 4);
		pairs_fini(&p);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pairs_come_back_as_they_were_put_in),
	    cmocka_unit_test(pairs_get_gives_the_first_value_of_a_key),
	    cmocka_unit_test(pairs_of_an_empty_text_are_none),
	    cmocka_unit_test(pairs_malformed_are_refused),
	    cmocka_unit_test(pairs_with_a_nul_are_refused),
	    cmocka_unit_test(pairs_damaged_at_random_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
