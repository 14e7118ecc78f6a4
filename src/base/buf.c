/* The growing byte buffer.  Capacity doubles, and always has room for the NUL after the text. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

static void
reserve(struct buf *b, size_t n)
{
	size_t need = b->len + n + 1;

	if (need <= b->cap)
		return;
	b->cap = need * 2 > 64 ? need * 2 : 64;
	b->data = xrealloc(b->data, b->cap);
}

void
buf_fini(struct buf *b)
{
	free(b->data);
	memset(b, 0, sizeof *b);
}

void
buf_reset(struct buf *b)
{
	b->len = 0;
	if (b->data != NULL)
		b->data[0] = '\0';
}

void
buf_drop(struct buf *b, size_t n)
{
	if (n == 0)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len + 1);
}

void
buf_add(struct buf *b, const void *p, size_t n)
{
	reserve(b, n);
	if (n > 0)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void
buf_addc(struct buf *b, char c)
{
	buf_add(b, &c, 1);
}

void
buf_adds(struct buf *b, const char *s)
{
	buf_add(b, s, strlen(s));
}

void
buf_addf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	if (n < 0)
		return;
	reserve(b, (size_t)n);
	va_start(ap, fmt);
	vsnprintf(b->data + b->len, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->len += (size_t)n;
}

void
buf_wrap(struct buf *b, const char *text, size_t columns, const char *before)
{
	const char *end = b->len == 0 ? NULL : memrchr(b->data, '\n', b->len);
	size_t at = end == NULL ? b->len : b->len - (size_t)(end + 1 - b->data);
	const char *blank = "";

	for (text += strspn(text, " \n"); *text != '\0'; text += strspn(text, " \n")) {
		size_t n = strcspn(text, " \n");

		if (*blank != '\0' && at + 1 + n > columns) {
			buf_addf(b, "\n%s", before);
			at = strlen(before);
			blank = "";
		}
		buf_addf(b, "%s%.*s", blank, (int)n, text);
		at += strlen(blank) + n;
		text += n;
		blank = " ";
	}
	buf_addc(b, '\n');
}

void
buf_json(struct buf *b, const char *s)
{
	const char *from = s;

	if (s == NULL) {
		buf_adds(b, "null");
		return;
	}
	buf_addc(b, '"');
	for (size_t n; *s != '\0'; s += n) {
		n = utf8_sequence(s, strnlen(s, 4));
		if (n > 0 && (unsigned char)*s >= ' ' && *s != '"' && *s != '\\' && *s != 0x7f)
			continue;
		buf_add(b, from, (size_t)(s - from));
		if (n == 0)
			buf_adds(b, "\\ufffd");
		else if (*s == '"' || *s == '\\')
			buf_addf(b, "\\%c", *s);
		else
			buf_addf(b, "\\u%04x", (unsigned char)*s);
		n = n == 0 ? 1 : n;
		from = s + n;
	}
	buf_adds(b, from);
	buf_addc(b, '"');
}

const char *
buf_str(const struct buf *b)
{
	return b->data == NULL ? "" : b->data;
}

char *
buf_steal(struct buf *b)
{
	char *s = b->data == NULL ? xstrdup("") : b->data;

	memset(b, 0, sizeof *b);
	return s;
}
