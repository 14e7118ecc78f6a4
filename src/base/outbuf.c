/* Head and tail of an output.  The head fills once, the tail is a ring; both are raw bytes.  Text is made
 * only when it is asked for, in units: a unit is a character that stays, a byte that is escaped, or a CR LF
 * that becomes LF.  Cuts fall between units, so that neither a character nor an escape is ever split, and the
 * note counts input bytes exactly. */
#include "base/outbuf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/utf8.h"

#define NOTE_FORMAT "\n... %" PRIu64 " bytes dropped ...\n"
#define NOTE_BYTES  (sizeof "\n... 18446744073709551615 bytes dropped ...\n" - 1)

struct outbuf {
	size_t head_max, tail_max; /* together the limit */
	uint64_t total;
	struct buf head;
	char *tail;               /* NULL until the head is full */
	size_t tail_len, tail_at; /* the next byte goes to tail_at; once full, it is also the oldest */
};

struct outbuf *
outbuf_create(size_t limit_bytes)
{
	struct outbuf *o = xcalloc(1, sizeof *o);

	assert(limit_bytes >= 64);
	o->head_max = limit_bytes / 2;
	o->tail_max = limit_bytes - o->head_max;
	return o;
}

void
outbuf_destroy(struct outbuf **o)
{
	if (*o == NULL)
		return;
	buf_fini(&(*o)->head);
	free((*o)->tail);
	free(*o);
	*o = NULL;
}

static void
tail_add(struct outbuf *o, const char *p, size_t n)
{
	size_t room;

	if (o->tail == NULL)
		o->tail = xmalloc(o->tail_max);
	if (n > o->tail_max) { /* only the end of it can stay */
		p += n - o->tail_max;
		n = o->tail_max;
	}
	room = o->tail_max - o->tail_at;
	if (room > n)
		room = n;
	memcpy(o->tail + o->tail_at, p, room);
	memcpy(o->tail, p + room, n - room);
	o->tail_at = (o->tail_at + n) % o->tail_max;
	o->tail_len = n > o->tail_max - o->tail_len ? o->tail_max : o->tail_len + n;
}

void
outbuf_add(struct outbuf *o, const void *p, size_t n)
{
	size_t head = o->head_max - o->head.len;

	if (head > n)
		head = n;
	o->total += n;
	if (head > 0)
		buf_add(&o->head, p, head);
	if (n > head)
		tail_add(o, (const char *)p + head, n - head);
}

uint64_t
outbuf_total(const struct outbuf *o)
{
	return o->total;
}

bool
outbuf_truncated(const struct outbuf *o)
{
	return o->total > o->head.len + o->tail_len;
}

struct unit {
	size_t in;    /* bytes it takes */
	size_t out;   /* bytes it gives */
	char text[8]; /* at most 4 and a NUL */
};

/* The unit that p[0..n) begins with; n > 0. */
static struct unit
unit_at(const char *p, size_t n)
{
	struct unit u = {.in = utf8_sequence(p, n)};

	if (p[0] == '\r' && n > 1 && p[1] == '\n')
		return (struct unit){.in = 2, .out = 1, .text = "\n"};
	if (p[0] == '\t' || p[0] == '\n' || (u.in > 0 && !utf8_is_control(p, u.in))) {
		u.out = u.in;
		memcpy(u.text, p, u.in);
		return u;
	}
	u.in = 1; /* the rest of a longer one follows, as bytes that are not UTF-8 */
	u.out = (size_t)snprintf(u.text, sizeof u.text, "\\x%02X", (unsigned char)p[0]);
	return u;
}

/* Prints units while they fit into max bytes; returns how many bytes of input that took. */
static size_t
print(struct buf *b, const char *p, size_t n, size_t max)
{
	size_t end = b->len + max, i = 0;

	while (i < n) {
		struct unit u = unit_at(p + i, n - i);

		if (u.out > end - b->len)
			break;
		buf_add(b, u.text, u.out);
		i += u.in;
	}
	return i;
}

/* Where to begin to get as many units from the end of p[0..n) as fit into max bytes. */
static size_t
tail_start(const char *p, size_t n, size_t max)
{
	size_t out = 0, start = 0;

	for (size_t i = 0; i < n;) {
		struct unit u = unit_at(p + i, n - i);

		out += u.out;
		i += u.in;
	}
	while (out > max) {
		struct unit u = unit_at(p + start, n - start);

		out -= u.out;
		start += u.in;
	}
	return start;
}

/* What is kept, as one block: the head, then the tail. */
static char *
kept_bytes(const struct outbuf *o)
{
	char *raw = xmalloc(o->head.len + o->tail_len + 1);
	size_t old = o->tail_len == o->tail_max ? o->tail_at : 0; /* slot of the oldest byte */

	memcpy(raw, buf_str(&o->head), o->head.len);
	if (o->tail_len > 0) {
		memcpy(raw + o->head.len, o->tail + old, o->tail_len - old);
		memcpy(raw + o->head.len + o->tail_len - old, o->tail, old);
	}
	return raw;
}

char *
outbuf_text(const struct outbuf *o)
{
	size_t ignored;

	return outbuf_text_of(o, &ignored);
}

char *
outbuf_text_of(const struct outbuf *o, size_t *unbroken_out)
{
	size_t limit = o->head_max + o->tail_max, n = o->head.len + o->tail_len;
	size_t head, from, tail, head_end = outbuf_truncated(o) ? o->head.len : n;
	AUTO_FREE char *raw = kept_bytes(o);
	struct buf b = {0};

	if (!outbuf_truncated(o) && print(&b, raw, n, limit) == n) {
		*unbroken_out = b.len;
		return buf_steal(&b);
	}
	buf_reset(&b);
	head = print(&b, raw, head_end, (limit - NOTE_BYTES) / 2);
	/* Unless bytes were dropped the two are one text, and the tail may begin where the head was cut. */
	from = outbuf_truncated(o) ? head_end : head;
	tail = from + tail_start(raw + from, n - from, limit - NOTE_BYTES - b.len);
	buf_addf(&b, NOTE_FORMAT, o->total - head - (n - tail));
	*unbroken_out = b.len;
	print(&b, raw + tail, n - tail, limit - b.len);
	*unbroken_out = b.len - *unbroken_out;
	return buf_steal(&b);
}

/* Could p[0..n), which is no unit yet, become one when more comes? */
static bool
unfinished(const char *p, size_t n)
{
	unsigned char c = (unsigned char)p[0];
	size_t need = c >= 0xF0 && c <= 0xF4 ? 4 : c >= 0xE0 && c < 0xF0 ? 3 : c >= 0xC2 && c < 0xE0 ? 2 : 0;

	if (c == '\r')
		return n == 1;
	for (size_t i = 1; i < n && i < need; i++) {
		if (((unsigned char)p[i] & 0xC0) != 0x80)
			return false;
	}
	return n < need;
}

/* Most of what is printed: copied as it is. */
static size_t
plain_run(const char *p, size_t n)
{
	size_t i = 0;

	while (i < n && ((p[i] >= ' ' && p[i] < 0x7F) || p[i] == '\n' || p[i] == '\t'))
		i++;
	return i;
}

/* Prints what no further byte can change; returns how many bytes of input that took. */
static size_t
stream_print(const char *p, size_t n, struct buf *out)
{
	size_t i = 0;

	while (i < n) {
		size_t plain = plain_run(p + i, n - i);

		buf_add(out, p + i, plain);
		i += plain;
		if (i < n) {
			struct unit u = unit_at(p + i, n - i);

			if (n - i < 4 && unfinished(p + i, n - i))
				break;
			buf_add(out, u.text, u.out);
			i += u.in;
		}
	}
	return i;
}

void
text_stream_add(struct text_stream *s, const void *p, size_t n, struct buf *out)
{
	const char *bytes = p;

	/* Byte by byte until nothing is held: a character is four bytes at most. */
	while (s->n_held > 0 && n > 0) {
		size_t done;

		s->held[s->n_held++] = *bytes++;
		n--;
		done = stream_print(s->held, s->n_held, out);
		memmove(s->held, s->held + done, s->n_held - done);
		s->n_held -= done;
	}
	if (n > 0) {
		size_t done = stream_print(bytes, n, out);

		s->n_held = n - done;
		memcpy(s->held, bytes + done, s->n_held);
	}
}

void
text_stream_end(struct text_stream *s, struct buf *out)
{
	print(out, s->held, s->n_held, 4 * sizeof s->held);
	s->n_held = 0;
}

char *
text_printable(const void *p, size_t n, size_t max)
{
	struct buf b = {0};

	print(&b, p, n, max);
	return buf_steal(&b);
}
