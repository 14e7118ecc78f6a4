/* The detail text of an error.  It may be stored in the database, so a cut never splits a character. */
#include "base/rc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* Takes a text of any length (already cut to the array); `wanted` is how long it would have been. */
static void
store(struct err *e, char *text, int wanted)
{
	if (wanted < 0)
		text[0] = '\0';
	if (wanted >= (int)sizeof e->text)
		utf8_trim(text, sizeof e->text - 1);
	memcpy(e->text, text, sizeof e->text);
}

enum rc
err_set(struct err *e, enum rc rc, const char *fmt, ...)
{
	char text[sizeof e->text] = ""; /* the arguments may point into e->text */
	va_list ap;

	if (e == NULL)
		return rc;
	e->sqlstate[0] = '\0';
	e->place[0] = '\0';
	e->hint_at = 0;
	e->silent = false;
	va_start(ap, fmt);
	store(e, text, vsnprintf(text, sizeof text, fmt, ap));
	va_end(ap);
	return rc;
}

bool
err_is_silence(enum rc rc, const struct err *e)
{
	return (rc == RC_UNKNOWN || rc == RC_AGAIN) && e->silent;
}

void
err_prefix(struct err *e, const char *fmt, ...)
{
	char prefix[sizeof e->text] = "";
	char text[2 * sizeof e->text + 2];
	va_list ap;

	if (e == NULL)
		return;
	va_start(ap, fmt);
	if (vsnprintf(prefix, sizeof prefix, fmt, ap) >= (int)sizeof prefix)
		utf8_trim(prefix, sizeof prefix - 1);
	va_end(ap);
	store(e, text, snprintf(text, sizeof text, "%s: %s", prefix, e->text));
	if (e->hint_at > 0)
		e->hint_at += strlen(prefix) + 2;
	if (e->hint_at >= strlen(e->text))
		e->hint_at = 0;
}

void
err_hint(struct err *e, const char *fmt, ...)
{
	char hint[sizeof e->text] = "";
	char text[2 * sizeof e->text + 2];
	size_t at;
	va_list ap;

	if (e == NULL || e->hint_at > 0)
		return;
	va_start(ap, fmt);
	if (vsnprintf(hint, sizeof hint, fmt, ap) >= (int)sizeof hint)
		utf8_trim(hint, sizeof hint - 1);
	va_end(ap);
	at = strlen(e->text) + 2;
	store(e, text, snprintf(text, sizeof text, "%s. %s", e->text, hint));
	e->hint_at = at < strlen(e->text) ? at : 0;
}

const char *
rc_name(enum rc rc)
{
	switch (rc) {
	case RC_OK: return "ok";
	case RC_LOST: return "lost";
	case RC_RACE: return "race";
	case RC_AGAIN: return "again";
	case RC_UNKNOWN: return "unknown";
	case RC_CLOSED: return "closed";
	case RC_BAD: return "bad";
	case RC_FATAL: return "fatal";
	}
	return "?";
}
