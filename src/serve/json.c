/* See json.h. */
#include "serve/json.h"

#include <string.h>

#include "base/utf8.h"

void
json_text(struct buf *out, const char *s)
{
	if (s == NULL) {
		buf_adds(out, "null");
		return;
	}
	buf_addc(out, '"');
	for (size_t n; *s != '\0'; s += n) {
		n = utf8_sequence(s, strnlen(s, 4));
		if (n == 0) {
			buf_adds(out, "\\ufffd");
			n = 1;
		} else if (*s == '"' || *s == '\\') {
			buf_addf(out, "\\%c", *s);
		} else if ((unsigned char)*s < ' ' || *s == 0x7f) {
			buf_addf(out, "\\u%04x", (unsigned char)*s);
		} else {
			buf_add(out, s, n);
		}
	}
	buf_addc(out, '"');
}
