/* Text form of array parameters, as array_in reads it. */
#include <string.h>

#include "db/pg.h"

/* An element follows. */
static struct buf *
begin(struct pgarray *a)
{
	buf_addc(&a->text, a->text.len == 0 ? '{' : ',');
	return &a->text;
}

void
pgarray_fini(struct pgarray *a)
{
	buf_fini(&a->text);
	a->filled = false;
}

void
pgarray_int(struct pgarray *a, int64_t v)
{
	char digits[24], *p = digits + sizeof digits;
	uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;

	do
		*--p = (char)('0' + u % 10);
	while ((u /= 10) != 0);
	if (v < 0)
		*--p = '-';
	buf_add(begin(a), p, (size_t)(digits + sizeof digits - p));
	a->filled = true;
}

void
pgarray_null(struct pgarray *a)
{
	buf_adds(begin(a), "NULL");
}

void
pgarray_text(struct pgarray *a, const char *s)
{
	if (s == NULL) {
		pgarray_null(a);
		return;
	}
	buf_addc(begin(a), '"');
	a->filled = true;
	for (size_t n; *s != '\0'; s += n) {
		n = strcspn(s, "\"\\");
		if (n == 0)
			buf_addc(&a->text, '\\');
		n += n == 0;
		buf_add(&a->text, s, n);
	}
	buf_addc(&a->text, '"');
}

const char *
pgarray_str(struct pgarray *a)
{
	if (a->text.len == 0)
		return "{}";
	buf_addc(&a->text, '}');
	a->text.len--; /* the next element takes its place */
	return a->text.data;
}

const char *
pgarray_sparse(struct pgarray *a)
{
	return a->filled ? pgarray_str(a) : NULL;
}
