/* Text from elsewhere on its way to a terminal: no control characters get through, whatever a
 * task's name or output holds. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

void text_line(struct buf *out, const char *s);  /* \n, \t and all others as \x.. */
void text_block(struct buf *out, const char *s); /* newlines and tabs stay; ends with a newline */
void text_json(struct buf *out, const char *s);  /* a JSON text: raw control characters become \u00.. */

/* To the standard output: a text that is ready, and then empty; a JSON text. */
void text_put(struct buf *out);
void text_put_json(const char *s);

/* Columns that a text of text_line takes, and how many of its bytes fit into `columns`. */
size_t text_width(const char *s);
size_t text_fit(const char *s, size_t columns);

struct screen {
	size_t columns; /* 0: unlimited (not a terminal) */
	bool color;
};
struct screen screen_look(void);
