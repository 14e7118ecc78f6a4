#include "core/progress.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/outbuf.h"

static const char prefix[] = "pgrab: progress ";
#define PREFIX_LEN (sizeof prefix - 1)

void
progress_set(struct progress *p, double percent, const char *text)
{
	const char *given = text == NULL ? "" : text;
	char *printable = text_printable(given, strnlen(given, 4 * PROGRESS_TEXT), PROGRESS_TEXT);

	p->percent = isnan(percent) || percent < 0 ? -1 : percent > 100 ? 100 : percent;
	snprintf(p->text, sizeof p->text, "%s", printable);
	for (char *c = p->text; *c != '\0'; c++)
		*c = *c == '\n' || *c == '\t' ? ' ' : *c;
	free(printable);
}

/* "42", "42.5", "42%" and then a blank or the end.  Returns what follows, or NULL: no such number. */
static const char *
read_percent(const char *p, double *out)
{
	double value = 0, part = 0.1;
	int digits = 0;

	for (; isdigit((unsigned char)*p) && digits < 4; p++, digits++)
		value = value * 10 + (*p - '0');
	if (digits > 0 && *p == '.') {
		for (p++; isdigit((unsigned char)*p); p++, part /= 10)
			value += part * (*p - '0');
	}
	p += *p == '%';
	if (digits == 0 || value > 100 || (*p != '\0' && *p != ' '))
		return NULL;
	*out = value;
	return p;
}

/* The line is whole, and begins as it should. */
static bool
parse(char *line, size_t len, struct progress *out)
{
	const char *rest = line + PREFIX_LEN, *after;
	double percent = -1;

	line[len] = '\0';
	while (len > PREFIX_LEN && strchr(" \t\r", line[len - 1]) != NULL)
		line[--len] = '\0';
	rest += strspn(rest, " ");
	after = read_percent(rest, &percent);
	rest = after == NULL ? rest : after + strspn(after, " ");
	if (percent < 0 && *rest == '\0')
		return false;
	progress_set(out, percent, rest);
	return true;
}

static void
take(struct progress_reader *r, const char *bytes, size_t n)
{
	size_t room = sizeof r->line - 1 - r->len, compare;

	memcpy(r->line + r->len, bytes, n < room ? n : room);
	r->len += n < room ? n : room;
	compare = r->len < PREFIX_LEN ? r->len : PREFIX_LEN;
	r->other = memcmp(r->line, prefix, compare) != 0;
}

bool
progress_read(struct progress_reader *r, const char *bytes, size_t n, struct progress *out)
{
	bool found = false;

	while (n > 0) {
		const char *end = memchr(bytes, '\n', n);
		size_t piece = end == NULL ? n : (size_t)(end - bytes);

		if (!r->other)
			take(r, bytes, piece);
		if (end == NULL)
			break;
		if (!r->other && r->len >= PREFIX_LEN)
			found = parse(r->line, r->len, out) || found;
		r->len = 0;
		r->other = false;
		bytes += piece + 1;
		n -= piece + 1;
	}
	return found;
}
