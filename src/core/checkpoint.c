#include "core/checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/outbuf.h"

static const char prefix[] = "pgrab: checkpoint ";
#define PREFIX_LEN (sizeof prefix - 1)

/* A piece of a line, without its end. */
static void
take(struct checkpoint_reader *r, const char *bytes, size_t n)
{
	size_t left = PREFIX_LEN - r->seen, same = n < left ? n : left, room;

	if (r->other)
		return;
	r->other = memcmp(bytes, prefix + r->seen, same) != 0;
	r->seen += same;
	room = CHECKPOINT_MAX + 1 - r->text.len;
	if (!r->other && n > same)
		buf_add(&r->text, bytes + same, n - same < room ? n - same : room);
}

static char *
end_line(struct checkpoint_reader *r)
{
	size_t n = r->text.len;
	const char *text = buf_str(&r->text);

	if (n > CHECKPOINT_MAX)
		return NULL;
	return text_printable(text, n > 0 && text[n - 1] == '\r' ? n - 1 : n, CHECKPOINT_MAX);
}

bool
checkpoint_read(struct checkpoint_reader *r, const char *bytes, size_t n, char **text)
{
	bool found = false;

	*text = NULL;
	while (n > 0) {
		const char *end = memchr(bytes, '\n', n);
		size_t piece = end == NULL ? n : (size_t)(end - bytes);

		take(r, bytes, piece);
		if (end == NULL)
			break;
		if (!r->other && r->seen == PREFIX_LEN) {
			free(*text);
			*text = end_line(r);
			found = true;
		}
		r->seen = 0;
		r->other = false;
		buf_reset(&r->text);
		bytes += piece + 1;
		n -= piece + 1;
	}
	return found;
}

void
checkpoint_fini(struct checkpoint_reader *r)
{
	buf_fini(&r->text);
}
