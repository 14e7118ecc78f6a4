/* The manual, made from the same tables as --help: pages for man(1) in man(7)'s macros, and a
 * configuration file with every setting commented out. */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* "pgrab.1", "pgrab.conf.5" or "pgrab.7"; false: there is no such page. */
bool manual_page(const char *name, struct buf *out);
void manual_example_config(struct buf *out);

/* The page of the SQL interface: what the COMMENTs of the schema say. */
void manual_sql(struct buf *out);

/* Parts of a page.  Texts are plain; what means something to roff is escaped here. */
void manual_head(struct buf *out, const char *title, const char *section, const char *name, const char *what);
void manual_section(struct buf *out, const char *title);
void manual_subsection(struct buf *out, const char *title);
void
manual_text(struct buf *out, const char *text); /* wrapped, so that the source can be read by people too */
void manual_paragraph(struct buf *out, const char *text);
/* A list item: bold words, then placeholders in italics (NULL: none), then its text. */
void manual_item(struct buf *out, const char *bold, const char *italic, const char *text);
void manual_see_also(struct buf *out, const char *pages);
