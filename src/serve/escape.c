#include "serve/escape.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static void
put_character(struct buf *out, const char *s, size_t n)
{
	switch (*s) {
	case '&': buf_adds(out, "&amp;"); break;
	case '<': buf_adds(out, "&lt;"); break;
	case '>': buf_adds(out, "&gt;"); break;
	case '"': buf_adds(out, "&quot;"); break;
	case '\'': buf_adds(out, "&#39;"); break;
	default: buf_add(out, s, n);
	}
}

void
html_text(struct buf *out, const char *s)
{
	for (size_t n; *s != '\0'; s += n) {
		n = utf8_sequence(s, strnlen(s, 4));
		if (n == 0 || (utf8_is_control(s, n) && *s != '\n' && *s != '\t')) {
			buf_adds(out, "\xef\xbf\xbd");
			n = n == 0 ? 1 : n;
		} else {
			put_character(out, s, n);
		}
	}
}

void
html_addf(struct buf *out, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	for (const char *next; (next = strchr(fmt, '%')) != NULL; fmt = next + 2) {
		buf_add(out, fmt, (size_t)(next - fmt));
		switch (next[1]) {
		case 's': html_text(out, va_arg(args, const char *)); break;
		case 'd': buf_addf(out, "%d", va_arg(args, int)); break;
		default: abort(); /* it is not one of these two */
		}
	}
	va_end(args);
	buf_adds(out, fmt);
}

void
html_url(struct buf *out, const char *s)
{
	for (; *s != '\0'; s++) {
		if (strchr("-._~", *s) != NULL || (*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'z') ||
		    (*s >= 'A' && *s <= 'Z'))
			buf_addc(out, *s);
		else
			buf_addf(out, "%%%02X", (unsigned char)*s);
	}
}
