/* Small allocations: these never return NULL, they log and abort.  Peers recover the tasks of a node
 * that dies, so unwinding half a claim for lack of 40 bytes is not worth one line of code.
 * Sizes that come from users (commands, output, bodies) are bounded by their readers before they get here.
 * Everything is released with free(3). */
#pragma once

#include <stddef.h>

#include "base/rc.h"

void *xmalloc(size_t n);
void *xcalloc(size_t n, size_t size); /* overflow of n * size aborts */
void *xrealloc(void *p, size_t n);
char *xstrdup(const char *s);            /* xstrdup(NULL) is NULL */
char *xmemdup0(const void *p, size_t n); /* n bytes and a terminating NUL */
void *xgiven(void *p);                   /* p, which a library has allocated */
char *xasprintf(const char *fmt, ...) PRINTF_LIKE(1, 2);

void free_auto(void *p); /* frees what the variable at p points to */
#define AUTO_FREE AUTO(free_auto)
