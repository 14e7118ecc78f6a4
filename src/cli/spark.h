/* Drawings of one line: blocks where the terminal has them, otherwise ASCII. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <libpq-fe.h>

#include "base/buf.h"

/* The last `columns` values of a column, the oldest first, each as a bar of a height of eight; null: a space.
 * newest_first: that is how the result is ordered.  Returns the highest. */
double spark_put(struct buf *out, const PGresult *r, int col, size_t columns, bool newest_first);

/* A bar of `columns`, of which `part` of `all` are filled. */
void spark_bar(struct buf *out, double part, double all, size_t columns);
