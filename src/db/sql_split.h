/* Splits SQL text into statements at top-level semicolons, as psql does: quotes, dollar quotes,
 * nested comments, parentheses and the body of a BEGIN ATOMIC function are respected.  Only used to
 * tell the last statement (whose rows are the output) from those before it; what is a valid statement
 * is for the server to say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct sql_part {
	const char *start; /* inside the text */
	size_t len;
};

/* Fills parts (at most max); returns how many, or max + 1 when there are more.  Empty statements and lone
 * comments are left out. */
size_t sql_split(const char *text, struct sql_part *parts, size_t max);

/* Does a statement name $1, outside of quotes and comments? */
bool sql_has_param(const char *text);
