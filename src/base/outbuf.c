/*
 * Head and tail of an output.  The head fills once; the tail is a ring.  Text is made only when asked for.
 */
#include "base/outbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"

struct outbuf {
	size_t half; /* bytes of head and of tail */
	uint64_t total;
	size_t head_len;
	size_t tail_len, tail_at; /* ring: next byte goes to tail_at */
	unsigned char *head, *tail;
};

struct outbuf *
outbuf_create(size_t limit_bytes)
{
	struct outbuf *o = xcalloc(1, sizeof *o);

	o->half = limit_bytes / 2;
	o->head = xmalloc(o->half);
	return o;
}

void
outbuf_destroy(struct outbuf **o)
{
	if (*o == NULL)
		return;
	free((*o)->head);
	free((*o)->tail);
	free(*o);
	*o = NULL;
}

void
outbuf_add(struct outbuf *o, const void *p, size_t n)
{
	const unsigned char *in = p;
	size_t k = n < o->half - o->head_len ? n : o->half - o->head_len;

	o->total += n;
	memcpy(o->head + o->head_len, in, k);
	o->head_len += k;
	in += k;
	n -= k;
	if (n == 0)
		return;
	if (o->tail == NULL)
		o->tail = xmalloc(o->half);
	if (n > o->half) { /* only the end of it can stay */
		in += n - o->half;
		n = o->half;
	}
	k = n < o->half - o->tail_at ? n : o->half - o->tail_at;
	memcpy(o->tail + o->tail_at, in, k);
	memcpy(o->tail, in + k, n - k);
	o->tail_at = (o->tail_at + n) % o->half;
	o->tail_len = o->tail_len + n > o->half ? o->half : o->tail_len + n;
}

uint64_t
outbuf_total(const struct outbuf *o)
{
	return o->total;
}

bool
outbuf_truncated(const struct outbuf *o)
{
	return o->total > o->head_len + o->tail_len;
}

/* Length of the valid, printable UTF-8 sequence at p (RFC 3629; no C1 controls), or 0. */
static size_t
utf8_length(const unsigned char *p, size_t n)
{
	size_t len = p[0] < 0x80                    ? 1
		     : p[0] >= 0xc2 && p[0] <= 0xdf ? 2
		     : p[0] >= 0xe0 && p[0] <= 0xef ? 3
		     : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4
						    : 0;

	if (len == 0 || len > n)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
	    (p[0] == 0xf4 && p[1] > 0x8f) || (p[0] == 0xc2 && p[1] < 0xa0))
		return 0;
	return len;
}

static void
add_printable(struct buf *out, const unsigned char *p, size_t n)
{
	size_t len;

	for (size_t i = 0; i < n; i += len) {
		len = utf8_length(p + i, n - i);
		if (len == 1 && p[i] == '\r' && i + 1 < n && p[i + 1] == '\n')
			continue;
		if (len > 1 ||
		    (len == 1 && ((p[i] >= 0x20 && p[i] != 0x7f) || p[i] == '\n' || p[i] == '\t'))) {
			buf_add(out, p + i, len);
		} else {
			buf_addf(out, "\\x%02X", p[i]);
			len = 1;
		}
	}
}

/* The largest cut <= at that does not split a sequence, of text that is valid. */
static size_t
cut_before(const char *s, size_t at)
{
	while (at > 0 && ((unsigned char)s[at] & 0xc0) == 0x80)
		at--;
	return at;
}

char *
text_printable(const void *p, size_t n, size_t max)
{
	struct buf b = {0};

	/* Four bytes in can be one byte out at the least; more than 4 * max in is never needed. */
	add_printable(&b, p, n > 4 * max ? 4 * max : n);
	if (b.len > max) {
		b.len = cut_before(b.data, max);
		b.data[b.len] = '\0';
	}
	return buf_steal(&b);
}

static void
tail_bytes(const struct outbuf *o, unsigned char *out)
{
	size_t start = (o->tail_at + o->half - o->tail_len) % o->half;
	size_t k = o->tail_len < o->half - start ? o->tail_len : o->half - start;

	memcpy(out, o->tail + start, k);
	memcpy(out + k, o->tail, o->tail_len - k);
}

/* Escapes can make it up to four times as long: head and tail again, by the same rule. */
static char *
cut_middle(struct buf *b, size_t limit)
{
	const char *note = "\n... (cut) ...\n";
	size_t keep = (limit - strlen(note)) / 2, head = cut_before(b->data, keep), tail = b->len - keep;
	struct buf out = {0};

	while (tail < b->len && ((unsigned char)b->data[tail] & 0xc0) == 0x80)
		tail++;
	buf_add(&out, b->data, head);
	buf_adds(&out, note);
	buf_add(&out, b->data + tail, b->len - tail);
	buf_fini(b);
	return buf_steal(&out);
}

char *
outbuf_text(const struct outbuf *o)
{
	unsigned char *raw = xmalloc(o->head_len + o->tail_len + 1);
	struct buf b = {0};
	bool cut = outbuf_truncated(o);

	memcpy(raw, o->head, o->head_len);
	if (o->tail_len > 0)
		tail_bytes(o, raw + o->head_len);
	if (cut) {
		add_printable(&b, raw, o->head_len);
		buf_addf(&b, "\n... %llu bytes dropped ...\n",
		    (unsigned long long)(o->total - o->head_len - o->tail_len));
		add_printable(&b, raw + o->head_len, o->tail_len);
	} else {
		add_printable(&b, raw, o->head_len + o->tail_len);
	}
	free(raw);
	return b.len > 2 * o->half + 64 ? cut_middle(&b, 2 * o->half) : buf_steal(&b);
}
