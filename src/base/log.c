/* One line, one write: lines of threads and processes never mix. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

#define LINE_MAX_BYTES 4096

/* Set by log_init before the first thread starts, read only afterwards. */
static enum log_level min_level = LOG_INFO;
static enum log_format format = LOG_TEXT;
static char node_name[256];
static _Thread_local const char *thread_name = "main";

static const char *const level_names[LOG_LEVEL__COUNT] = {"debug", "info", "warn", "error"};

void
log_init(enum log_level level, enum log_format fmt, const char *node)
{
	min_level = level;
	format = fmt;
	snprintf(node_name, sizeof node_name, "%s", node == NULL ? "" : node);
}

void
log_thread(const char *name)
{
	thread_name = name;
}

bool
log_enabled(enum log_level level)
{
	return level >= min_level;
}

static size_t
put_time(char *out, size_t size)
{
	int64_t us = clock_wall_us();
	time_t s = (time_t)(us / US_PER_S);
	struct tm tm;
	size_t n;

	gmtime_r(&s, &tm);
	n = strftime(out, size, "%Y-%m-%dT%H:%M:%S", &tm);
	return n + (size_t)snprintf(out + n, size - n, ".%03dZ", (int)(us % US_PER_S / 1000));
}

/* Copies s[0..n) with what could break a line escaped.  Returns the new length. */
static size_t
put_escaped(char *out, size_t at, const char *s, size_t n)
{
	for (size_t i = 0; i < n && at + 8 < LINE_MAX_BYTES; i++) {
		unsigned char c = (unsigned char)s[i];

		if (c == '"' || c == '\\') {
			out[at++] = '\\';
			out[at++] = (char)c;
		} else if (c < 0x20 || c == 0x7f) {
			at += (size_t)snprintf(out + at, 8, "\\u%04x", c);
		} else {
			out[at++] = (char)c;
		}
	}
	return at;
}

/* Does the quote at p end a value?  Only at the end of the text, or before " key=": messages of others hold
 * quotes of their own. */
static bool
closing_quote(const char *p)
{
	size_t n;

	if (p[1] == '\0')
		return true;
	if (p[1] != ' ')
		return false;
	n = strspn(p + 2, "abcdefghijklmnopqrstuvwxyz_");
	return n > 0 && p[2 + n] == '=';
}

/* One `key=value` or `key="value"` of text; returns what is behind it. */
static const char *
split_pair(const char *p, const char **key, size_t *key_len, const char **value, size_t *value_len)
{
	const char *end;

	p += strspn(p, " ");
	*key = p;
	*key_len = strcspn(p, "= ");
	p += *key_len;
	if (*p == '=')
		p++;
	if (*p == '"') {
		*value = ++p;
		for (end = p; *end != '\0' && !(*end == '"' && closing_quote(end)); end++)
			;
		*value_len = (size_t)(end - p);
		return *end == '"' ? end + 1 : end;
	}
	*value = p;
	*value_len = strcspn(p, " ");
	return p + *value_len;
}

static size_t
put_pairs(char *out, size_t at, const char *text)
{
	const char *key, *value;
	size_t key_len, value_len;

	while (text[strspn(text, " ")] != '\0') {
		text = split_pair(text, &key, &key_len, &value, &value_len);
		bool quote = format == LOG_JSON || text[-1] == '"';

		if (at + key_len + 16 >= LINE_MAX_BYTES)
			break;
		at += (size_t)snprintf(out + at, LINE_MAX_BYTES - at,
		    format == LOG_JSON ? ",\"%.*s\":" : " %.*s=", (int)key_len, key);
		if (quote)
			out[at++] = '"';
		at = put_escaped(out, at, value, value_len);
		if (quote)
			out[at++] = '"';
	}
	return at;
}

void
log_line(enum log_level level, const char *event, const char *fmt, ...)
{
	char text[LINE_MAX_BYTES / 2], line[LINE_MAX_BYTES + 16], when[40];
	int saved = errno;
	va_list ap;
	size_t at;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	put_time(when, sizeof when);
	if (format == LOG_JSON)
		at = (size_t)snprintf(line, sizeof line,
		    "{\"time\":\"%s\",\"level\":\"%s\",\"node\":\"%s\",\"thread\":\"%s\",\"event\":\"%s\"",
		    when, level_names[level], node_name, thread_name, event);
	else
		at = (size_t)snprintf(
		    line, sizeof line, "%s %-5s %-9s event=%s", when, level_names[level], thread_name, event);
	at = put_pairs(line, at, text);
	at += (size_t)snprintf(line + at, sizeof line - at, format == LOG_JSON ? "}\n" : "\n");
	while (write(STDERR_FILENO, line, at) < 0 && errno == EINTR)
		;
	errno = saved;
}

static int
find(const char *const *names, int n, const char *s)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(names[i], s) == 0)
			return i;
	}
	return -1;
}

int
log_level_parse(const char *s)
{
	return find(level_names, LOG_LEVEL__COUNT, s);
}

int
log_format_parse(const char *s)
{
	static const char *const names[] = {"text", "json"};

	return find(names, 2, s);
}
