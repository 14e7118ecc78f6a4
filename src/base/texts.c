#include "base/texts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static void
append(struct texts *t, char *owned)
{
	t->item = xrealloc(t->item, (t->n + 2) * sizeof *t->item);
	t->item[t->n++] = owned;
	t->item[t->n] = NULL;
}

void
texts_add(struct texts *t, const char *text)
{
	append(t, xstrdup(text));
}

void
texts_set(struct texts *t, const char *fmt, ...)
{
	size_t i = 0, name;
	char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	xgiven(vasprintf(&text, fmt, ap) < 0 ? NULL : text);
	va_end(ap);
	name = strcspn(text, "=") + 1;
	while (i < t->n && strncmp(t->item[i], text, name) != 0)
		i++;
	if (i == t->n) {
		append(t, text);
	} else {
		free(t->item[i]);
		t->item[i] = text;
	}
}

void
texts_split(struct texts *t, const char *text, const char *separators)
{
	if (t->item == NULL)
		t->item = xcalloc(1, sizeof *t->item);
	for (text += strspn(text, separators); *text != '\0'; text += strspn(text, separators)) {
		size_t n = strcspn(text, separators);

		append(t, xmemdup0(text, n));
		text += n;
	}
}

bool
texts_have(const struct texts *t, const char *text)
{
	return t->n > 0 && text_among(text, (const char *const *)t->item);
}

const char *
texts_keep(struct texts *t, const char *text)
{
	size_t i = 0;

	while (i < t->n && strcmp(t->item[i], text) != 0)
		i++;
	if (i == t->n)
		texts_add(t, text);
	return t->item[i];
}

void
texts_fini(struct texts *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->item[i]);
	free(t->item);
	*t = (struct texts){0};
}

bool
text_among(const char *text, const char *const *list)
{
	while (*list != NULL && strcmp(*list, text) != 0)
		list++;
	return *list != NULL;
}
