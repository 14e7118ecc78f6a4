/* A growing byte buffer, always NUL-terminated; `len` does not count that NUL.  Embedded by value; all-zero
 * is a valid empty buffer. */
#pragma once

#include <stddef.h>

#include "base/rc.h"

struct buf {
	char *data; /* NULL until the first append; use buf_str() to read */
	size_t len;
	size_t cap;
};

void buf_fini(struct buf *b);           /* frees, leaves it empty */
void buf_reset(struct buf *b);          /* empties, keeps the memory */
void buf_drop(struct buf *b, size_t n); /* the first n bytes */
void buf_add(struct buf *b, const void *p, size_t n);
void buf_addc(struct buf *b, char c);
void buf_adds(struct buf *b, const char *s);
void buf_addf(struct buf *b, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* A text, as lines of at most so many bytes; it begins where b ends, a further line with `before`. */
void buf_wrap(struct buf *b, const char *text, size_t columns, const char *before);
/* A string of JSON, with its quotes; s NULL: null. */
void buf_json(struct buf *b, const char *s);
const char *buf_str(const struct buf *b); /* never NULL */
char *buf_steal(struct buf *b);           /* caller frees; the buffer is empty afterwards */

#define AUTO_BUF AUTO(buf_fini)
