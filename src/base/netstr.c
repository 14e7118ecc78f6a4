/* Takes the list of pairs apart in a copy of its text: each string's closing comma becomes its NUL, so that
 * no string is copied twice.  The text comes from the database, so everything about it is checked. */
#include "base/netstr.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Takes the string at *at and moves *at past its comma.  NULL: malformed.  Leading zeros are refused, so that
 * every list has one form, and so is a NUL, which would hide what follows it. */
static char *
take_string(char *text, size_t len, size_t *at)
{
	size_t i = *at, n = 0;

	if (i >= len || text[i] < '0' || text[i] > '9' ||
	    (text[i] == '0' && i + 1 < len && text[i + 1] != ':'))
		return NULL;
	for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
		n = n * 10 + (size_t)(text[i] - '0');
		if (n > len)
			return NULL;
	}
	if (i >= len || text[i] != ':' || len - ++i <= n || text[i + n] != ',')
		return NULL;
	if (memchr(text + i, '\0', n) != NULL)
		return NULL;
	text[i + n] = '\0';
	*at = i + n + 1;
	return text + i;
}

enum rc
pairs_parse(const char *text, size_t len, struct pairs *out, struct err *err)
{
	size_t at = 0, cap = 0;

	*out = (struct pairs){0};
	out->memory = xmemdup0(text, len);
	while (at < len) {
		size_t from = at;
		const char *key = take_string(out->memory, len, &at);
		const char *value = key != NULL ? take_string(out->memory, len, &at) : NULL;

		if (value == NULL) {
			pairs_fini(out);
			return err_set(err, RC_BAD,
			    "the list of arguments is malformed after byte %zu of %zu", from, len);
		}
		if (out->count == cap) {
			cap = cap > 0 ? 2 * cap : 8;
			out->item = xrealloc(out->item, cap * sizeof *out->item);
		}
		out->item[out->count++] = (struct pair){.key = key, .value = value};
	}
	return RC_OK;
}

void
pairs_fini(struct pairs *p)
{
	free(p->item);
	free(p->memory);
	*p = (struct pairs){0};
}

const char *
pairs_get(const struct pairs *p, const char *key)
{
	for (size_t i = 0; i < p->count; i++)
		if (strcmp(p->item[i].key, key) == 0)
			return p->item[i].value;
	return NULL;
}
