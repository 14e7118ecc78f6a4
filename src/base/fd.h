/* Descriptors: closing one, and a file in memory for another process to read. */
#pragma once

#include "base/rc.h"

/* If it is open, and makes it -1.  errno stays. */
void close_fd(int *fd);

/* Makes a file that holds data, read from its start; close-on-exec.  what: its name in /proc, and in the text
 * of an error.  RC_AGAIN: the system refused, and *fd_out is -1. */
CHECKED enum rc memfile_make(const char *what, const void *data, size_t len, int *fd_out, struct err *err);
