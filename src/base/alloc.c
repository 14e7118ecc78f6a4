/* Allocation that never returns NULL: when memory runs out it logs that (the log allocates nothing) and
 * aborts. */
#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static void *
check(void *p, size_t n)
{
	if (p == NULL && n > 0) {
		log_error("out_of_memory", "bytes=%zu", n);
		abort();
	}
	return p;
}

void *
xmalloc(size_t n)
{
	return check(malloc(n > 0 ? n : 1), 1);
}

void *
xcalloc(size_t n, size_t size)
{
	return check(calloc(n > 0 ? n : 1, size > 0 ? size : 1), n);
}

void *
xrealloc(void *p, size_t n)
{
	return check(realloc(p, n > 0 ? n : 1), n > 0 ? n : 1);
}

char *
xstrdup(const char *s)
{
	return s == NULL ? NULL : check(strdup(s), 1);
}

char *
xmemdup0(const void *p, size_t n)
{
	char *s = xmalloc(n + 1);

	if (n > 0)
		memcpy(s, p, n);
	s[n] = '\0';
	return s;
}

void
free_auto(void *p)
{
	free(*(void **)p);
}

void *
xgiven(void *p)
{
	return check(p, 1);
}

char *
xasprintf(const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return check(s, 1);
}
