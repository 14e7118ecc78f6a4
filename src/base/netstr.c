#include "base/netstr.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* One "5:hello," at *at: NUL-terminates it in place (over the comma) and moves on.  NULL: malformed. */
static char *
next_string(char *text, size_t len, size_t *at)
{
	size_t n = 0, start, i = *at;

	if (i >= len || text[i] < '0' || text[i] > '9')
		return NULL;
	for (; i < len && text[i] >= '0' && text[i] <= '9'; i++) {
		n = n * 10 + (size_t)(text[i] - '0');
		if (n > len)
			return NULL;
	}
	if (i >= len || text[i] != ':')
		return NULL;
	start = i + 1;
	if (n > len - start || start + n >= len || text[start + n] != ',')
		return NULL;
	text[start + n] = '\0';
	*at = start + n + 1;
	return text + start;
}

enum rc
pairs_parse(const char *text, size_t len, struct pairs *out, struct err *err)
{
	size_t at = 0, cap = 0;

	memset(out, 0, sizeof *out);
	if (len == 0)
		return RC_OK;
	out->memory = xmemdup0(text, len);
	while (at < len) {
		char *key = next_string(out->memory, len, &at);
		char *value = key == NULL ? NULL : next_string(out->memory, len, &at);

		if (value == NULL) {
			pairs_fini(out);
			return err_set(err, RC_BAD, "malformed list of strings at byte %zu", at);
		}
		if (out->count == cap) {
			cap = cap == 0 ? 8 : cap * 2;
			out->item = xrealloc(out->item, cap * sizeof *out->item);
		}
		out->item[out->count++] = (struct pair){key, value};
	}
	return RC_OK;
}

void
pairs_fini(struct pairs *p)
{
	free(p->item);
	free(p->memory);
	memset(p, 0, sizeof *p);
}

const char *
pairs_get(const struct pairs *p, const char *key)
{
	for (size_t i = 0; i < p->count; i++) {
		if (strcmp(p->item[i].key, key) == 0)
			return p->item[i].value;
	}
	return NULL;
}
