/* pgrab import crontab: the five fields of a line, with what pgrab writes in another way. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "cli/import.h"

#define DIGITS "0123456789"

/* "a~b" of a field is a number between them, which cron picks when it reads the table.  Here the command
 * picks it, so that the same table gives the same file. */
static bool
pick(struct buf *out, const char *part, size_t n, int field, const char *command)
{
	static const long low[] = {0, 0, 1, 1, 0}, high[] = {59, 23, 31, 12, 6};
	const char *wave = memchr(part, '~', n);
	size_t left = wave != NULL ? (size_t)(wave - part) : 0, right = wave != NULL ? n - left - 1 : 0;
	long from = left > 0 ? strtol(part, NULL, 10) : low[field],
	     to = right > 0 ? strtol(wave + 1, NULL, 10) : high[field];
	unsigned long hash = (unsigned long)field + 5381;

	if (wave == NULL || strspn(part, DIGITS) != left || strspn(wave + 1, DIGITS) != right ||
	    from < low[field] || to > high[field] || from > to)
		return false; /* what it is, the check of schedules says */
	for (const char *s = command; *s != '\0'; s++)
		hash = hash * 33 + (unsigned char)*s;
	buf_addf(out, "%ld", from + (long)(hash / 7 % (unsigned long)(to - from + 1)));
	return true;
}

/* A step that is longer than its field leaves its first value, to cron.  pgrab wants it as long as the field
 * at most, which is the same, and keeps the star before it, which decides when clocks change. */
static void
put_part(struct buf *out, const char *part, size_t n, int field, const char *command)
{
	static const long places[] = {60, 24, 31, 12, 7};
	const char *slash = memchr(part, '/', n);
	size_t before = slash != NULL ? (size_t)(slash - part) + 1 : n, digits = n - before;

	if (pick(out, part, n, field, command))
		return;
	buf_add(out, part, before);
	if (digits > 0 && strspn(slash + 1, DIGITS) >= digits && strtol(slash + 1, NULL, 10) > places[field])
		buf_addf(out, "%ld", places[field]);
	else
		buf_add(out, part + before, digits);
}

/* Names what a part means here, where cron takes no such thing, or not everywhere the same. */
static void
speak_of_part(struct import *m, const char *place, const char *fields, const char *part, size_t n, int field)
{
	static const char *const signs[] = {"?", "?", "?LW", "?", "?#L"};
	size_t first = strcspn(part, "/,-*~ \t");
	AUTO_BUF struct buf text = {0};

	for (const char *sign = signs[field]; text.len == 0 && *sign != '\0'; sign++) {
		if (memchr(part, *sign, n) != NULL ||
		    memchr(part, tolower((unsigned char)*sign), n) != NULL) {
			buf_addf(&text, "%s: cron has no %c; docs/calendar.md says what it means here",
			    fields, *sign);
		}
	}
	if (text.len == 0 && first > 0 && first < n && part[first] == '/')
		buf_addf(&text,
		    "%s: a step after one number counts from it to the end of the field, as in FreeBSD; "
		    "other crons refuse it, or fire at that number only",
		    fields);
	if (text.len > 0)
		import_note(m, place, buf_str(&text));
}

void
import_fields(struct import *m, const char *place, const char *fields, const char *command, struct buf *out)
{
	int field = 0;
	AUTO_BUF struct buf text = {0};

	for (const char *p = fields + (*fields == '-'); *p != '\0' && *fields != '@';) {
		size_t n = strcspn(p, " \t,");

		put_part(out, p, n, field, command);
		speak_of_part(m, place, fields, p, n, field);
		p += n;
		if (*p == ',')
			buf_addc(out, *p++);
		else if (*p != '\0') {
			field += field < 4;
			buf_addc(out, ' ');
			p += strspn(p, " \t");
		}
	}
	if (out->len == 0)
		buf_adds(out, fields);
	if (strchr(fields, '~') != NULL) {
		buf_addf(&text, "its ~=%s from now on: cron picks another at each start", buf_str(out));
		import_note(m, place, buf_str(&text));
	}
}
