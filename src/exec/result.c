/* An error text may carry what a server said, so it need not be printable or short. */
#include "exec/result.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/outbuf.h"

const char *
stop_text(enum pgrab_stop why)
{
	switch (why) {
	case PGRAB_STOP_TIMEOUT: return "timed out";
	case PGRAB_STOP_CANCEL: return "cancelled";
	case PGRAB_STOP_FENCED: return "stopped because the node lost its lease";
	case PGRAB_STOP_SHUTDOWN: return "stopped because the node shuts down";
	case PGRAB_STOP_PREEMPTED: return "stopped for more important work";
	case PGRAB_STOP_NONE: break;
	}
	return "stopped";
}

void
result_fail(struct pgrab_result *result, const char *fmt, ...)
{
	char text[sizeof(result->error)];
	AUTO_FREE char *printable = NULL;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	printable = text_printable(text, strcspn(text, "\r\n"), sizeof(result->error) - 1);
	snprintf(result->error, sizeof(result->error), "%s", printable);
	result->succeeded = false;
}
