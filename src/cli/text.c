/* Printable text and its width. */
#include "cli/text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/utf8.h"

/* Bytes of the next character; 1 and *plain = false for what must not be shown unescaped. */
static size_t
next_char(const char *s, bool *plain)
{
	size_t n = utf8_sequence(s, strnlen(s, 4));

	*plain = n > 0 && !utf8_is_control(s, n);
	return n > 0 ? n : 1;
}

void
text_line(struct buf *out, const char *s)
{
	for (size_t n; *s != '\0'; s += n) {
		bool plain;

		n = next_char(s, &plain);
		if (plain)
			buf_add(out, s, n);
		else if (*s == '\n')
			buf_adds(out, "\\n");
		else if (*s == '\t')
			buf_adds(out, "\\t");
		else
			for (size_t i = 0; i < n; i++)
				buf_addf(out, "\\x%02x", (unsigned char)s[i]);
	}
}

void
text_block(struct buf *out, const char *s)
{
	char last = '\n';

	for (size_t n; *s != '\0'; s += n) {
		bool plain;

		n = next_char(s, &plain);
		if (plain || *s == '\n' || *s == '\t')
			buf_add(out, s, n);
		else if (*s != '\r')
			for (size_t i = 0; i < n; i++)
				buf_addf(out, "\\x%02x", (unsigned char)s[i]);
		last = *s;
	}
	if (last != '\n')
		buf_addc(out, '\n');
}

void
text_json(struct buf *out, const char *s)
{
	/* The server escapes C0 inside strings; newlines between rows are its own.  It leaves DEL, C1 and
	 * characters that turn the direction of text around. */
	for (size_t n; *s != '\0'; s += n) {
		bool plain;

		n = next_char(s, &plain);
		if (plain || *s == '\n')
			buf_add(out, s, n);
		else
			buf_addf(out, "\\u%04x", (unsigned)utf8_code_point(s, n));
	}
	buf_addc(out, '\n');
}

/* Good enough for tables: combining marks take none, East Asian wide and emoji take two. */
static size_t
char_width(uint32_t c)
{
	static const struct {
		uint32_t from, to;
		size_t width;
	} odd[] = {{0x300, 0x36f, 0}, {0x1100, 0x115f, 2}, {0x200b, 0x200f, 0}, {0x2028, 0x202e, 0},
	    {0x2060, 0x206f, 0}, {0x2e80, 0xa4cf, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},
	    {0xfe00, 0xfe0f, 0}, {0xfe30, 0xfe6f, 2}, {0xff00, 0xff60, 2}, {0xffe0, 0xffe6, 2},
	    {0x1f300, 0x1faff, 2}, {0x20000, 0x3fffd, 2}};

	for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
		if (c >= odd[i].from && c <= odd[i].to)
			return odd[i].width;
	}
	return 1;
}

void
text_put(struct buf *out)
{
	fputs(buf_str(out), stdout);
	buf_fini(out);
}

void
text_put_json(const char *s)
{
	struct buf out = {0};

	text_json(&out, s);
	text_put(&out);
}

size_t
text_width(const char *s)
{
	size_t width = 0;

	for (size_t n; *s != '\0'; s += n) {
		bool plain;

		n = next_char(s, &plain);
		width += char_width(utf8_code_point(s, n));
	}
	return width;
}

size_t
text_fit(const char *s, size_t columns)
{
	const char *p = s;

	for (size_t n, used = 0; *p != '\0'; p += n) {
		bool plain;

		n = next_char(p, &plain);
		used += char_width(utf8_code_point(p, n));
		if (used > columns)
			break;
	}
	return (size_t)(p - s);
}

struct screen
screen_look(void)
{
	const char *columns = getenv("COLUMNS"), *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	struct screen s = {0};
	struct winsize w;

	if (!isatty(STDOUT_FILENO))
		return s;
	if (columns != NULL)
		s.columns = strtoul(columns, NULL, 10);
	if (s.columns == 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0)
		s.columns = w.ws_col;
	s.color = (no_color == NULL || *no_color == '\0') && term != NULL && strcmp(term, "dumb") != 0;
	return s;
}
