/*
 * The log: one line per event and one write(2) per line, so that the lines of threads and of processes that
 * share a stderr never mix.
 *
 * Between log_start and log_stop a thread of its own writes: a reader of our stderr may stall until the pipe
 * is full, and no other thread may stall with it.  Lines wait in a buffer of fixed size, whose lock is held
 * only for a memcpy; lines that find it full are counted, and the writer logs how many.  Without that thread
 * (short commands, tests, before and after) lines are written at once.
 */
#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/journal.h"
#include "base/log_format.h"
#include "base/thread.h"

#define HALF_BYTES (128 * 1024)
#define FLUSH_US   (500 * US_PER_MS)

/* Set by log_init before the first thread starts, read only afterwards. */
static _Atomic int min_level = LOG_INFO;
static enum log_format format = LOG_TEXT;
static char node_name[256];
static int journal_fd = -1;

static _Thread_local const char *thread_name = "main";

static const char *const level_names[LOG_LEVEL__COUNT] = {"debug", "info", "warn", "error"};

/* The lines that wait: they are added to one half while the writer has the other. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t grew, shrank; /* on CLOCK_MONOTONIC */
	pthread_t thread;
	bool running;         /* there is a writer, so lines go to the buffer */
	bool ending, writing; /* writing: the other half is not written yet */
	char half[2][HALF_BYTES];
	int filling;      /* the half that lines are added to, */
	size_t len;       /* and how much is in it */
	uint64_t dropped; /* lines since the writer last logged this */
	_Atomic int64_t dropped_ever;
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

void
log_set_level(enum log_level level)
{
	atomic_store(&min_level, (int)level);
}

enum log_level
log_level(void)
{
	return (enum log_level)atomic_load(&min_level);
}

void
log_init(enum log_level level, enum log_format fmt, const char *node)
{
	log_set_level(level);
	format = fmt;
	if (fmt == LOG_JOURNAL && journal_fd < 0)
		journal_fd = journal_open(JOURNAL_SOCKET);
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
	return (int)level >= atomic_load_explicit(&min_level, memory_order_relaxed);
}

/* Time, level, thread: none of them needs escaping. */
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

static void
begin_line(struct log_text *t, enum log_level level, const char *event)
{
	t->len = 0;
	t->cut = false;
	t->json = format == LOG_JSON;
	t->node = node_name[0] != '\0' ? node_name : NULL;
	put_head(t, level);
	if (t->node != NULL)
		log_put_pair(t, "node", t->node, strlen(t->node), false);
	log_put_pair(t, "event", event, strlen(event), false);
}

/* To the journal, if it takes the line.  Another process may have made our stderr non-blocking.  wait: until
 * there is room; only the writer may. */
static void
write_line(const char *text, size_t len, bool wait)
{
	if (format == LOG_JOURNAL && journal_send(journal_fd, text, len))
		return;
	while (write(STDERR_FILENO, text, len) < 0) {
		struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

		if (errno == EAGAIN && wait)
			(void)poll(&p, 1, -1);
		else if (errno != EINTR)
			return;
	}
}

/* False: there is no writer. */
static bool
enqueue(const struct log_text *t)
{
	bool running;

	WITH_LOCK(&queue.lock);
	running = queue.running;
	if (running && queue.len + t->len <= HALF_BYTES && queue.dropped == 0) {
		memcpy(queue.half[queue.filling] + queue.len, t->text, t->len);
		queue.len += t->len;
		PTHREAD_OK(pthread_cond_signal(&queue.grew));
	} else if (running) {
		/* After one is dropped so are all, until the writer has logged how
		 * many: no gap goes unreported. */
		queue.dropped++;
		atomic_fetch_add(&queue.dropped_ever, 1);
	}
	return running;
}

static void
end_line(struct log_text *t)
{
	log_put_end(t);
	if (!enqueue(t))
		write_line(t->text, t->len, false);
}

void
log_line(enum log_level level, const char *event, const char *fmt, ...)
{
	struct log_text t;
	int saved = errno;
	va_list ap;

	if (!log_enabled(level))
		return;
	begin_line(&t, level, event);
	errno = saved; /* for %m */
	va_start(ap, fmt);
	log_put_pairs(&t, fmt, &ap);
	va_end(ap);
	end_line(&t);
	errno = saved;
}

/* Lock held.  The next lines: a half or, once both are empty, one in t that says how many were dropped.
 * False: there are none. */
static bool
next_lines(struct log_text *t, const char **text, size_t *len)
{
	static const char slow[] = "the reader of the log was too slow";
	char number[24];
	int n;

	if (queue.len > 0) {
		*text = queue.half[queue.filling];
		*len = queue.len;
		queue.filling = !queue.filling;
		queue.len = 0;
		return true;
	}
	if (queue.dropped == 0)
		return false;
	begin_line(t, LOG_WARN, "log_dropped");
	n = snprintf(number, sizeof number, "%llu", (unsigned long long)queue.dropped);
	log_put_pair(t, "lines", number, (size_t)n, false);
	log_put_pair(t, "hint", slow, sizeof slow - 1, true);
	log_put_end(t);
	*text = t->text;
	*len = t->len;
	queue.dropped = 0;
	return true;
}

static void *
writer_main(void *arg)
{
	struct log_text t;
	const char *text;
	size_t len;

	PTHREAD_OK(pthread_mutex_lock(&queue.lock));
	for (;;) {
		if (next_lines(&t, &text, &len)) {
			queue.writing = true;
			PTHREAD_OK(pthread_mutex_unlock(&queue.lock));
			for (size_t n; len > 0; text += n, len -= n) {
				n = (size_t)((const char *)memchr(text, '\n', len) - text) + 1;
				write_line(text, n, true);
			}
			PTHREAD_OK(pthread_mutex_lock(&queue.lock));
			queue.writing = false;
			continue;
		}
		PTHREAD_OK(pthread_cond_broadcast(&queue.shrank));
		if (queue.ending)
			break;
		PTHREAD_OK(pthread_cond_wait(&queue.grew, &queue.lock));
	}
	PTHREAD_OK(pthread_mutex_unlock(&queue.lock));
	return arg;
}

enum rc
log_start(struct err *err)
{
	enum rc rc;

	clock_cond_init(&queue.grew);
	clock_cond_init(&queue.shrank);
	queue.ending = false;
	queue.running = true;
	rc = thread_try(&queue.thread, "log", writer_main, NULL, err);
	if (rc != RC_OK)
		queue.running = false;
	return rc;
}

/* Lock held, released while asleep. */
static bool
await_empty(void)
{
	int64_t until = clock_mono_us() + FLUSH_US;

	while (queue.len > 0 || queue.writing || queue.dropped > 0) {
		if (!clock_wait(&queue.shrank, &queue.lock, until))
			return false;
	}
	return true;
}

int64_t
log_dropped(void)
{
	return atomic_load(&queue.dropped_ever);
}

void
log_flush(void)
{
	WITH_LOCK(&queue.lock);
	if (queue.running)
		(void)await_empty();
}

void
log_stop(void)
{
	bool empty;

	PTHREAD_OK(pthread_mutex_lock(&queue.lock));
	if (!queue.running) {
		PTHREAD_OK(pthread_mutex_unlock(&queue.lock));
		return;
	}
	queue.ending = true;
	PTHREAD_OK(pthread_cond_signal(&queue.grew));
	empty = await_empty();
	queue.running = !empty; /* new lines go to the buffer of a stuck writer: they must not wait too */
	PTHREAD_OK(pthread_mutex_unlock(&queue.lock));
	if (empty)
		thread_join(queue.thread);
	else
		PTHREAD_OK(pthread_detach(queue.thread));
}
