/* Writing small JSON texts of our own; the database makes JSON of what users wrote. */
#ifndef PGRAB_SERVE_JSON_H
#define PGRAB_SERVE_JSON_H

#include "base/buf.h"

void json_text(struct buf *out, const char *s); /* with its quotes; NULL: null */

#endif
