/* What a run printed, bounded: the first half and the last half of `limit` bytes, what lies between is
 * counted and dropped.  Bytes go in, printable UTF-8 comes out, so that it can be stored in a text column and
 * shown by psql without harm: valid UTF-8 stays; TAB, LF stay; CR before LF is dropped; NUL, other control
 * characters (C0, DEL, C1, those that turn the direction of text around) and bytes that are not valid UTF-8
 * become \xHH.  Memory is O(limit) for any amount of input.  Owned by one thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define OUTBUF_LIMIT (64 * 1024)

struct outbuf;

struct outbuf *outbuf_create(size_t limit_bytes); /* limit >= 64 */
void outbuf_destroy(struct outbuf **o);
void outbuf_add(struct outbuf *o, const void *p, size_t n);
uint64_t outbuf_total(const struct outbuf *o); /* bytes that went in */
bool outbuf_truncated(const struct outbuf *o);

/* The text: head, then if bytes were dropped a line "\n... 12345 bytes dropped ...\n", then tail.  A UTF-8
 * sequence that the cut splits is escaped.  At most 4 * limit + 64 bytes are built and the result is cut to
 * limit bytes again (head and tail) if escapes made it longer.  Caller frees; never NULL. */
char *outbuf_text(const struct outbuf *o);

/* The same; *unbroken_out: how many bytes at its end have no gap in them. */
char *outbuf_text_of(const struct outbuf *o, size_t *unbroken_out);

/* The same rule for bytes that come in pieces: the text is the same however they are cut.  Embedded by value;
 * all-zero is a fresh one. */
struct text_stream {
	char held[4]; /* the beginning of a character whose rest has not come yet */
	size_t n_held;
};
void text_stream_add(struct text_stream *s, const void *p, size_t n, struct buf *out);
void text_stream_end(struct text_stream *s, struct buf *out);

/* The same rule for one string of n bytes (an error message, a header): printable, at most `max` bytes.
 * Caller frees. */
char *text_printable(const void *p, size_t n, size_t max);
