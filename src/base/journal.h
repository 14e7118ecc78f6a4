/* The log as fields of systemd's journal, so that `journalctl PGRAB_TASK=17` finds the lines of a task. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define JOURNAL_SOCKET "/run/systemd/journal/socket"

int journal_open(const char *path); /* -1: there is no journal */

/* Sends a line of the text log (log.h): its level as PRIORITY, each pair as PGRAB_KEY=value, what follows
 * level and thread as MESSAGE.  Never waits.  False: it was not sent. */
bool journal_send(int fd, const char *line, size_t len);
