/* What every answer has: its headers, and its line in the log.  The HTTP thread. */
#pragma once

#include "serve/call.h"

void reply_header(struct call *c, const char *name, const char *value);
void reply_headers(struct call *c);
void reply_log(const struct call *c, int64_t us); /* us: how long it took */
