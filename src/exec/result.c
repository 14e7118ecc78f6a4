/*
 * An error text may carry what a server said, so it need not be printable or short.
 */
#include "exec/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/outbuf.h"

void
result_fail(struct pgrab_result *result, const char *fmt, ...)
{
	char text[sizeof(result->error)];
	char *printable;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printable = text_printable(text, strcspn(text, "\r\n"), sizeof(result->error) - 1);
	snprintf(result->error, sizeof(result->error), "%s", printable);
	free(printable);
	result->succeeded = false;
}
