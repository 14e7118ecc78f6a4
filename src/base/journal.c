/* See journal.h.  The native protocol of the journal: a datagram of lines FIELD=value.  No value here has
 * a line end: the log escapes them. */
#include "base/journal.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LEVEL_AT  25 /* in a line: behind its time */
#define THREAD_AT 31

/* Nothing is allocated, as everywhere in the log. */
struct entry {
	char text[16 * 1024];
	size_t len;
};

static void
add(struct entry *e, const char *text, size_t n)
{
	if (n > sizeof e->text - e->len)
		n = sizeof e->text - e->len;
	memcpy(e->text + e->len, text, n);
	e->len += n;
}

static void
add_text(struct entry *e, const char *text)
{
	add(e, text, strlen(text));
}

static void
add_char(struct entry *e, char c)
{
	add(e, &c, 1);
}

int
journal_open(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(to.sun_path, sizeof to.sun_path, "%s", path);
	if (fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* As syslog numbers them. */
static char
priority(char level)
{
	return level == 'e' ? '3' : level == 'w' ? '4' : level == 'i' ? '6' : '7';
}

/* The pair at p, which ends before end; returns what follows it. */
static const char *
put_pair(struct entry *e, const char *p, const char *end)
{
	const char *equals = memchr(p, '=', (size_t)(end - p));
	bool quoted;

	if (equals == NULL)
		return end;
	add_text(e, "PGRAB_");
	for (; p < equals; p++)
		add_char(e, isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_');
	add_char(e, '=');
	p = equals + 1;
	quoted = p < end && *p == '"';
	for (p += quoted; p < end && *p != (quoted ? '"' : ' '); p++) {
		if (*p == '\\' && p + 1 < end && (p[1] == '"' || p[1] == '\\'))
			p++;
		add_char(e, *p);
	}
	add_char(e, '\n');
	return p + (quoted && p < end);
}

bool
journal_send(int fd, const char *line, size_t len)
{
	const char *end = line + len - (len > 0 && line[len - 1] == '\n'), *p;
	struct entry e = {.len = 0};

	if (fd < 0 || end - line <= THREAD_AT)
		return false;
	add_text(&e, "SYSLOG_IDENTIFIER=pgrab\nPRIORITY=");
	add_char(&e, priority(line[LEVEL_AT]));
	add_text(&e, "\nPGRAB_THREAD=");
	for (p = line + THREAD_AT; p < end && *p != ' '; p++)
		add_char(&e, *p);
	while (p < end && *p == ' ')
		p++;
	add_text(&e, "\nMESSAGE=");
	add(&e, p, (size_t)(end - p));
	add_char(&e, '\n');
	while (p < end) {
		p = put_pair(&e, p, end);
		p += p < end && *p == ' ';
	}
	return send(fd, e.text, e.len, MSG_NOSIGNAL) == (ssize_t)e.len;
}
