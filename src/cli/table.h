/* A result as aligned columns. */
#pragma once

#include <stdint.h>

#include <libpq-fe.h>

#include "base/buf.h"
#include "cli/text.h"

/* Header line and rows; numbers aligned to the right; lines cut at the screen's width.  Null is empty. */
void table_print(struct buf *out, const PGresult *r, const struct screen *s);

/* The same, at most max rows. */
void table_print_some(struct buf *out, const PGresult *r, int64_t max, const struct screen *s);

/* Rows of (name, value) as "name   value" lines; a value of several lines is indented below its name. */
void fields_print(struct buf *out, const PGresult *r, const char *const *skip);
