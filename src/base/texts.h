/* A list of texts, each of them owned, ended by NULL: words of a setting, an argv, an environment. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/rc.h"

/* All-zero: empty, and item NULL. */
struct texts {
	char **item;
	size_t n;
};

void texts_add(struct texts *t, const char *text);
/* "NAME=value", in the place of the text that has this name, if there is one. */
void texts_set(struct texts *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Adds what stands between any of these characters.  item is not NULL then, even without a word. */
void texts_split(struct texts *t, const char *text, const char *separators);
bool texts_have(const struct texts *t, const char *text);
/* One that has this text, added if there is none: for texts that others may read until the end. */
const char *texts_keep(struct texts *t, const char *text);
void texts_fini(struct texts *t);

/* Is it one of a list that is ended by NULL, or of these words? */
bool text_among(const char *text, const char *const *list);
#define IS_ONE_OF(text, ...) text_among(text, (const char *const[]){__VA_ARGS__, NULL})
