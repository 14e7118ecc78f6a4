/*
 * Outputs against a plain copy of all bytes.  The expected text is made the slow way here, byte by byte, and
 * each text is checked to be UTF-8 by a decoder of this test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/outbuf.h"
#include "base/utf8.h"
#include "random.h"

/* The code point at *p, which moves on; -1: not UTF-8.  The string ends with NUL, so reading on is safe. */
static long
decode(const unsigned char **p)
{
	static const long least[] = {0, 0, 0x80, 0x800, 0x10000};
	unsigned char c = *(*p)++;
	int n = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 0;
	long cp = n == 1 ? c : c & (0x7f >> n);

	if (n == 0 || c >= 0xf8)
		return -1;
	for (int i = 1; i < n; i++) {
		if ((**p & 0xc0) != 0x80)
			return -1;
		cp = cp << 6 | (*(*p)++ & 0x3f);
	}
	return cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff) ? -1 : cp;
}

static void
assert_printable(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p != '\0') {
		long cp = decode(&p);

		assert_true(cp == '\n' || cp == '\t' || (cp >= 0x20 && cp < 0x7f) || cp >= 0xa0);
	}
}

/* What text_printable must give of all n bytes, by the decoder above. */
static char *
expected(const char *in, size_t n)
{
	struct buf b = {0};

	for (size_t i = 0; i < n;) {
		char part[5] = "";
		const unsigned char *p = (const unsigned char *)part;
		long cp;

		memcpy(part, in + i, n - i < 4 ? n - i : 4);
		cp = decode(&p);
		if (cp == '\r' && i + 1 < n && in[i + 1] == '\n') {
			i++;
		} else if (cp == '\n' || cp == '\t' || (cp >= 0x20 && cp < 0x7f) || cp >= 0xa0) {
			buf_add(&b, in + i, (size_t)(p - (const unsigned char *)part));
			i += (size_t)(p - (const unsigned char *)part);
		} else {
			buf_addf(&b, "\\x%02X", (unsigned char)in[i++]);
		}
	}
	return buf_steal(&b);
}

static void
assert_text(const char *in, size_t n, const char *want)
{
	char *got = text_printable(in, n, 1000);

	assert_string_equal(got, want);
	free(got);
}

static void
text_keeps_utf8_and_escapes_the_rest(void **state)
{
	assert_text("", 0, "");
	assert_text("a\tb\nc", 5, "a\tb\nc");
	assert_text("a\r\nb\rc\r", 7, "a\nb\\x0Dc\\x0D");
	assert_text("\r\r\n", 3, "\\x0D\n");
	assert_text("\0\x01\x1b[0m\x7f", 7, "\\x00\\x01\\x1B[0m\\x7F");
	assert_text("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
	assert_text("\xc2\x80\xc2\x9f\xc2\xa0", 6, "\\xC2\\x80\\xC2\\x9F\xc2\xa0");
	assert_text("\xff\xfe\x80", 3, "\\xFF\\xFE\\x80");
	assert_text("\xc0\x80\xc1\xbf", 4, "\\xC0\\x80\\xC1\\xBF"); /* overlong */
	assert_text("\xe0\x9f\xbf\xf0\x8f\xbf\xbf", 7, "\\xE0\\x9F\\xBF\\xF0\\x8F\\xBF\\xBF");
	assert_text("\xed\xa0\x80", 3, "\\xED\\xA0\\x80");          /* surrogate */
	assert_text("\xf4\x90\x80\x80", 4, "\\xF4\\x90\\x80\\x80"); /* above U+10FFFF */
	assert_text("\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf");
	assert_text("\xe2\x82", 2, "\\xE2\\x82");
	assert_text("\xe2\x82z", 3, "\\xE2\\x82z");
	/* What turns the direction of a line around; what is beside it stays. */
	assert_text("exe\xe2\x80\xaetxt", 9, "exe\\xE2\\x80\\xAEtxt");
	assert_text(
	    "\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9", 9, "\\xE2\\x80\\xAA\\xE2\\x81\\xA6\\xE2\\x81\\xA9");
	assert_text("\xe2\x80\xaf\xe2\x81\xa5\xd7\x90", 8, "\xe2\x80\xaf\xe2\x81\xa5\xd7\x90");
}

static void
text_is_cut_between_characters_and_escapes(void **state)
{
	char *s;

	s = text_printable("ab\xe2\x82\xac", 5, 4);
	assert_string_equal(s, "ab");
	free(s);
	s = text_printable("a\x01", 2, 4);
	assert_string_equal(s, "a");
	free(s);
	s = text_printable("a\x01", 2, 5);
	assert_string_equal(s, "a\\x01");
	free(s);
	s = text_printable("abc", 3, 0);
	assert_string_equal(s, "");
	free(s);
	s = text_printable(NULL, 0, 10);
	assert_string_equal(s, "");
	free(s);
}

static void
utf8_trim_cuts_only_what_is_unfinished(void **state)
{
	char whole[] = "x\xe2\x82\xac", half[] = "x\xe2\x82", two[] = "\xf0\x9f\x98", stray[] = "a\x80\x80";

	assert_int_equal(utf8_trim(whole, 4), 4);
	assert_int_equal(utf8_trim(half, 3), 1);
	assert_string_equal(half, "x");
	assert_int_equal(utf8_trim(two, 3), 0);
	assert_int_equal(utf8_trim(stray, 3), 3);
	assert_int_equal(utf8_trim(stray, 0), 0);
}

/* Pieces of all kinds: plain, any byte, UTF-8, control characters, line ends. */
static size_t
random_bytes(char *out, size_t max, unsigned flavour)
{
	static const char *const pieces[] = {
	    "\r\n", "\r", "\n", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xc2\x85", "\xe2\x82"};
	size_t n = 0, want = random_below((unsigned)max + 1);

	while (n < want) {
		const char *piece = pieces[random_below(8)];
		size_t len = strlen(piece);

		if (flavour == 0 || (flavour == 1 && random_below(8) != 0) || n + len > want)
			out[n++] = (char)('a' + random_below(26));
		else if (flavour == 2)
			out[n++] = (char)random_below(256);
		else if (flavour == 3)
			out[n++] = '\0';
		else
			for (size_t i = 0; i < len; i++)
				out[n++] = piece[i];
	}
	return n;
}

/*
 * A truncated text is printable(begin of the input), the note, printable(end of the input), and what lies
 * between is as long as the note says.
 */
static void
assert_head_note_tail(const char *text, const char *all, size_t total, size_t limit)
{
	const char *note = strstr(text, "\n... "), *behind, *next;
	unsigned long long dropped = 0;
	char *head, *tail, *want_head, *want_tail;
	bool found = false;

	/* The input may hold what looks like a note, so look for one that fits. */
	for (; note != NULL && !found; note = next) {
		next = strstr(note + 1, "\n... ");
		behind = strstr(note, " bytes dropped ...\n");
		if (behind == NULL || sscanf(note, "\n... %llu bytes", &dropped) != 1 || dropped > total)
			continue;
		behind += strlen(" bytes dropped ...\n");
		head = xmemdup0(text, (size_t)(note - text));
		tail = xstrdup(behind);
		for (size_t h = 0; h + dropped <= total && h <= limit && !found; h++) {
			want_head = expected(all, h);
			want_tail = expected(all + h + dropped, total - h - dropped);
			found = strcmp(head, want_head) == 0 && strcmp(tail, want_tail) == 0;
			free(want_head);
			free(want_tail);
		}
		free(head);
		free(tail);
	}
	assert_true(found);
}

static void
one_random_output(unsigned flavour)
{
	enum { ALL = 1200 };
	size_t limit = 64 + random_below(200), total = 0;
	struct outbuf *o = outbuf_create(limit);
	char all[ALL], *text, *want;

	while (total < ALL && random_below(12) != 0) {
		size_t max = random_below(3) == 0 ? ALL - total : (ALL - total) / 8;
		size_t n = random_bytes(all + total, max, flavour);

		for (size_t at = 0, k; at < n; at += k) { /* in pieces that split sequences */
			k = random_below(2) == 0 ? n - at : 1;
			outbuf_add(o, all + total + at, k);
		}
		total += n;
	}
	assert_int_equal(outbuf_total(o), total);
	assert_int_equal(outbuf_truncated(o), total > limit);
	text = outbuf_text(o);
	want = expected(all, total);
	assert_true(strlen(text) <= limit);
	assert_printable(text);
	if (total <= limit && strlen(want) <= limit)
		assert_string_equal(text, want);
	else
		assert_head_note_tail(text, all, total, limit);
	free(want);
	free(text);
	outbuf_destroy(&o);
	assert_null(o);
}

static void
outbuf_is_head_note_and_tail_of_what_went_in(void **state)
{
	random_start();
	for (int round = 0; round < 400; round++)
		one_random_output((unsigned)round % 5);
}

static void
outbuf_of_exactly_its_limit_is_whole(void **state)
{
	struct outbuf *o = outbuf_create(65); /* odd: the halves differ */
	char in[66], *text;

	memset(in, 'x', 65);
	in[65] = '\0';
	in[0] = 'a';
	in[64] = 'z';
	outbuf_add(o, in, 65);
	assert_false(outbuf_truncated(o));
	text = outbuf_text(o);
	assert_string_equal(text, in);
	free(text);
	outbuf_add(o, "!", 1);
	assert_true(outbuf_truncated(o));
	text = outbuf_text(o);
	assert_int_equal(text[strlen(text) - 1], '!');
	assert_non_null(strstr(text, " bytes dropped ...\n"));
	free(text);
	outbuf_destroy(&o);
}

static void
outbuf_of_every_byte_is_printable(void **state)
{
	struct outbuf *o = outbuf_create(OUTBUF_LIMIT);
	char in[256], *text, *want;

	for (int i = 0; i < 256; i++)
		in[i] = (char)i;
	outbuf_add(o, in, sizeof in);
	text = outbuf_text(o);
	want = expected(in, sizeof in);
	assert_string_equal(text, want);
	assert_printable(text);
	free(text);
	free(want);
	outbuf_destroy(&o);
}

static void
outbuf_of_nothing_is_an_empty_text(void **state)
{
	struct outbuf *o = outbuf_create(64);
	char *text;

	outbuf_add(o, NULL, 0);
	text = outbuf_text(o);
	assert_string_equal(text, "");
	assert_false(outbuf_truncated(o));
	free(text);
	outbuf_destroy(&o);
	outbuf_destroy(&o);
}

static void
outbuf_of_many_megabytes_stays_within_its_limit(void **state)
{
	struct outbuf *o = outbuf_create(OUTBUF_LIMIT);
	char block[8192], *text;

	memset(block, 0, sizeof block); /* each becomes four bytes */
	outbuf_add(o, "first", 5);
	for (int i = 0; i < 1000; i++)
		outbuf_add(o, block, sizeof block);
	outbuf_add(o, "last", 4);
	text = outbuf_text(o);
	assert_true(strlen(text) <= OUTBUF_LIMIT && strlen(text) > OUTBUF_LIMIT - 64);
	assert_memory_equal(text, "first\\x00", 9);
	assert_string_equal(text + strlen(text) - 8, "\\x00last");
	free(text);
	outbuf_destroy(&o);
}

/* Whatever the pieces, it is what it would be at once. */
static void
test_a_stream_does_not_depend_on_its_pieces(void **state)
{
	static const char bytes[] = "plain\tcaf\303\251 \360\237\230\200\r\n\r\rx\302\205\303(\360\237\230 "
				    "\355\240\200\xff\x01 end\303";
	size_t n = sizeof bytes - 1;
	char *whole = text_printable(bytes, n, 1000);

	for (size_t piece = 1; piece <= n; piece++) {
		struct text_stream s = {0};
		struct buf out = {0};

		for (size_t i = 0; i < n; i += piece)
			text_stream_add(&s, bytes + i, n - i < piece ? n - i : piece, &out);
		text_stream_end(&s, &out);
		assert_string_equal(buf_str(&out), whole);
		buf_fini(&out);
	}
	free(whole);
}

static void
test_what_is_said_to_have_no_gap_is_the_end_of_what_went_in(void **state)
{
	for (size_t total = 10; total < 2000; total += 37) {
		struct outbuf *o = outbuf_create(256);
		char *in = malloc(total), *text;
		size_t unbroken, length;

		for (size_t i = 0; i < total; i++)
			in[i] = (char)('a' + i % 26);
		outbuf_add(o, in, total);
		text = outbuf_text_of(o, &unbroken);
		length = strlen(text);
		assert_true(unbroken <= length && unbroken <= total && unbroken > 0);
		assert_memory_equal(text + length - unbroken, in + total - unbroken, unbroken);
		assert_int_equal(outbuf_truncated(o), unbroken < length);
		free(text);
		free(in);
		outbuf_destroy(&o);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_keeps_utf8_and_escapes_the_rest),
	    cmocka_unit_test(text_is_cut_between_characters_and_escapes),
	    cmocka_unit_test(utf8_trim_cuts_only_what_is_unfinished),
	    cmocka_unit_test(outbuf_is_head_note_and_tail_of_what_went_in),
	    cmocka_unit_test(outbuf_of_exactly_its_limit_is_whole),
	    cmocka_unit_test(outbuf_of_every_byte_is_printable),
	    cmocka_unit_test(outbuf_of_nothing_is_an_empty_text),
	    cmocka_unit_test(outbuf_of_many_megabytes_stays_within_its_limit),
	    cmocka_unit_test(test_a_stream_does_not_depend_on_its_pieces),
	    cmocka_unit_test(test_what_is_said_to_have_no_gap_is_the_end_of_what_went_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
