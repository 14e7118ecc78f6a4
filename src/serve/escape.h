/* Text on its way into a page or JSON: whatever a task's name, command or output holds, it stays text. */
#pragma once

#include "base/buf.h"

/* For text and for attribute values in double quotes.  Control characters except \n and \t become U+FFFD. */
void html_text(struct buf *out, const char *s);

/* Markup of ours with such texts in it: of printf's, %s and %d. */
void html_addf(struct buf *out, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* One part of a path, or a value of a query: percent-encoded. */
void html_url(struct buf *out, const char *s);
