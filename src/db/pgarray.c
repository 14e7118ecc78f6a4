/*
 * Text form of array parameters, as array_in reads it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "db/pg.h"

static void
reserve(struct pgarray *a, size_t n)
{
	size_t need = a->len + n + 3; /* opening brace, closing brace, NUL */

	if (need <= a->cap)
		return;
	a->cap = need * 2 > 256 ? need * 2 : 256;
	a->data = xrealloc(a->data, a->cap);
}

/* Room for an element of at most n bytes, after the brace or comma that precedes it. */
static char *
element(struct pgarray *a, size_t n)
{
	reserve(a, n + 1);
	a->data[a->len] = a->len == 0 ? '{' : ',';
	a->len++;
	return a->data + a->len;
}

void
pgarray_fini(struct pgarray *a)
{
	free(a->data);
	memset(a, 0, sizeof *a);
}

void
pgarray_int(struct pgarray *a, int64_t v)
{
	char *p = element(a, 20);
	char digits[24];
	size_t n = 0;
	uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		digits[n++] = (char)('0' + u % 10);
	while ((u /= 10) != 0);
	if (v < 0)
		digits[n++] = '-';
	a->len += n;
	while (n > 0)
		*p++ = digits[--n];
}

void
pgarray_null(struct pgarray *a)
{
	memcpy(element(a, 4), "NULL", 4);
	a->len += 4;
}

void
pgarray_text(struct pgarray *a, const char *s)
{
	char *p, *start;

	if (s == NULL) {
		pgarray_null(a);
		return;
	}
	start = p = element(a, 2 * strlen(s) + 2);
	*p++ = '"';
	for (; *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			*p++ = '\\';
		*p++ = *s;
	}
	*p++ = '"';
	a->len += (size_t)(p - start);
}

const char *
pgarray_str(struct pgarray *a)
{
	reserve(a, 0);
	if (a->len == 0)
		return "{}";
	a->data[a->len] = '}';
	a->data[a->len + 1] = '\0';
	return a->data;
}
