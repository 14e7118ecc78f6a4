/* One log line in the making.  Only log.c uses this. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#define LOG_LINE_BYTES 4096 /* PIPE_BUF: one write of this size to a pipe never mixes with another */

struct log_text {
	char text[LOG_LINE_BYTES];
	size_t len;
	bool json;
	bool cut;         /* a pair did not fit: it and all that follow are left out */
	const char *node; /* pairs that would repeat it are left out; may be NULL */
};

/* Adds ` key=value` or `,"key":"value"`.  key is a word; the value may be anything. */
void log_put_pair(struct log_text *t, const char *key, const char *value, size_t n, bool quoted);

/* Adds the pairs that fmt spells.  Nothing in an argument can end its value. */
void log_put_pairs(struct log_text *t, const char *fmt, va_list *ap);

/* Ends the line. */
void log_put_end(struct log_text *t);

/* Adds s unchanged, or marks the line as cut. */
void log_put(struct log_text *t, const char *s, size_t n);
