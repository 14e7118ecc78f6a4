/*
 * One line per event, one write(2) per line, to stderr.  Any thread, with any lock held; errno is preserved.
 *   text:  2026-11-21T05:12:01.123Z info  boss   event=drain held=12
 *   journal: the same line as fields of systemd's journal (journal.h); as text on stderr if there is none
 *   json:  {"time":"...","level":"info","thread":"boss","event":"drain","held":"12"}
 * A line is an event word and key=value pairs, so that it greps and parses.  Log once, where the decision is
 * made (retry, give up, stop), never on the way up; never a secret, never a payload.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/rc.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_LEVEL__COUNT };
enum log_format { LOG_TEXT, LOG_JSON, LOG_JOURNAL };

/* Call before the first thread starts.  `node`, unless NULL, goes into every line; it is copied. */
void log_init(enum log_level level, enum log_format format, const char *node);
void log_set_level(enum log_level level); /* any thread, any time */
enum log_level log_level(void);

/* From here on no caller waits for stderr: a thread of the log's own writes the lines, from a buffer of 256
 * KiB.  Lines that find it full are dropped and counted in a line log_dropped.  RC_AGAIN: the thread could
 * not be started, and lines are written as before. */
CHECKED enum rc log_start(struct err *err);

/* Waits until what has been logged is written, at most half a second.  log_stop then ends the thread. */
void log_flush(void);
void log_stop(void);

/* How many lines have been dropped since log_start. */
int64_t log_dropped(void);

/* Names the calling thread in its lines; the string must be a literal (it is kept by pointer). */
void log_thread(const char *name);

bool log_enabled(enum log_level level);

/* event is one word ("node_up").  fmt gives zero or more `key=%d key2="%s"` pairs, separated by blanks; a
 * value with blanks is put in double quotes by the caller.  Control characters and quotes inside values are
 * escaped here. */
void log_line(enum log_level level, const char *event, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
