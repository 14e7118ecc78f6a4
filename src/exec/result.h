/* Filling in struct pgrab_result: what all built-in executors share. */
#pragma once

#include "base/rc.h"
#include "pgrab/executor.h"

/* "timed out": for the error of a run that was told to stop. */
const char *stop_text(enum pgrab_stop why);

/* Not succeeded, and why: the first line of the text, made printable, cut to size. */
void result_fail(struct pgrab_result *result, const char *fmt, ...) PRINTF_LIKE(2, 3);
