/*
 * The log: one line per event and one write(2) per line, so that the lines of threads and of processes that
 * share a stderr never mix.  It takes no lock and allocates nothing: it may be called with any lock held.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log_format.h"

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

/* Time, level, thread: none of them holds anything to escape. */
static void
put_head(struct log_text *t, enum log_level level)
{
	int64_t us = clock_wall_us();
	time_t s = (time_t)(us / US_PER_S);
	char when[32], head[160];
	struct tm tm;
	int n, ms = (int)(us % US_PER_S / US_PER_MS);

	gmtime_r(&s, &tm);
	strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &tm);
	if (t->json)
		n = snprintf(head, sizeof head,
		    "{\"time\":\"%s.%03dZ\",\"level\":\"%s\",\"thread\":\"%.32s\"", when, ms,
		    level_names[level], thread_name);
	else
		n = snprintf(
		    head, sizeof head, "%s.%03dZ %-5s %-9.32s", when, ms, level_names[level], thread_name);
	log_put(t, head, (size_t)n);
}

void
log_line(enum log_level level, const char *event, const char *fmt, ...)
{
	struct log_text t;
	int saved = errno;
	va_list ap;

	if (!log_enabled(level))
		return;
	t.len = 0;
	t.cut = false;
	t.json = format == LOG_JSON;
	t.node = node_name[0] != '\0' ? node_name : NULL;
	put_head(&t, level);
	if (t.node != NULL)
		log_put_pair(&t, "node", t.node, strlen(t.node), false);
	log_put_pair(&t, "event", event, strlen(event), false);
	errno = saved; /* for %m */
	va_start(ap, fmt);
	log_put_pairs(&t, fmt, &ap);
	va_end(ap);
	log_put_end(&t);
	while (write(STDERR_FILENO, t.text, t.len) < 0 && errno == EINTR)
		;
	errno = saved;
}

static int
find(const char *const *names, int n, const char *s)
{
	for (int i = 0; i < n; i++)
		if (strcmp(names[i], s) == 0)
			return i;
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
