#include "base/rc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum rc
err_set(struct err *e, enum rc rc, const char *fmt, ...)
{
	va_list ap;

	if (e == NULL)
		return rc;
	e->sqlstate[0] = '\0';
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	return rc;
}

void
err_prefix(struct err *e, const char *fmt, ...)
{
	char old[sizeof e->text];
	va_list ap;
	size_t n;

	if (e == NULL)
		return;
	memcpy(old, e->text, sizeof old);
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof e->text, fmt, ap);
	va_end(ap);
	n = strlen(e->text);
	snprintf(e->text + n, sizeof e->text - n, ": %s", old);
}

const char *
rc_name(enum rc rc)
{
	switch (rc) {
	case RC_OK: return "ok";
	case RC_LOST: return "lost";
	case RC_AGAIN: return "again";
	case RC_UNKNOWN: return "unknown";
	case RC_CLOSED: return "closed";
	case RC_BAD: return "bad";
	case RC_FATAL: return "fatal";
	default: return "?";
	}
}
