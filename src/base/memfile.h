/*
 * A file in memory, for what another process is to read by its descriptor.
 */
#ifndef PGRAB_BASE_MEMFILE_H
#define PGRAB_BASE_MEMFILE_H

#include "base/rc.h"

/* With data in it and nothing read of it; close-on-exec.  what: its name in /proc, and in the text of an
 * error.  RC_AGAIN: the system refused, and *fd_out is -1. */
CHECKED enum rc memfile_make(const char *what, const void *data, size_t len, int *fd_out, struct err *err);

#endif
