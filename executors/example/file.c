/*
 * file: waits until a file exists, and prints its size.
 *
 * An example of an executor built out of the tree.  `command` is the path; `args.within` is how
 * many seconds to wait for it, 60 unless said.  The run succeeds when the file exists and fails
 * when the time is over, so that the task's own retries and chains do the rest.
 */
#include <pgrab/executor.h>

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* One per worker thread: calls of run() with the same self never overlap, so it needs no lock. */
struct watcher {
	int inotify;
};

static void *
file_open(const void *internal, char *err, size_t err_size)
{
	struct watcher *w = calloc(1, sizeof *w);

	if (w == NULL)
		return NULL;
	w->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->inotify < 0) {
		snprintf(err, err_size, "could not watch folders: %s", strerror(errno));
		free(w);
		return NULL;
	}
	return w;
}

static void
file_close(void *self)
{
	struct watcher *w = self;

	close(w->inotify);
	free(w);
}

static int64_t
now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* args.within in milliseconds; -1 with the reason in result->error.  Whatever comes from a row is checked. */
static int64_t
within_ms(const struct pgrab_run *run, struct pgrab_result *result)
{
	double seconds = 60;
	char rest;

	for (size_t i = 0; i < run->n_args; i++) {
		if (strcmp(run->args[i].key, "within") != 0) {
			snprintf(
			    result->error, sizeof result->error, "args: a task of kind file takes: within");
			return -1;
		}
		if (sscanf(run->args[i].value, "%lf%c", &seconds, &rest) != 1 ||
		    !(seconds >= 0 && seconds <= 86400)) {
			snprintf(result->error, sizeof result->error,
			    "args.within is a number of seconds from 0 to 86400");
			return -1;
		}
	}
	return (int64_t)(seconds * 1000);
}

static bool
is_there(const char *path, const struct pgrab_host *host)
{
	struct stat st;
	char line[64];

	if (stat(path, &st) != 0)
		return false;
	snprintf(line, sizeof line, "%lld bytes\n", (long long)st.st_size);
	host->output(host->ctx, line, strlen(line));
	return true;
}

/* Every wait of an executor looks like this one: what it waits for, stop_fd beside it, and a deadline.  The
 * node makes stop_fd readable for a timeout, a cancel, or its own shutdown; run() then returns as soon as it
 * can, and the result it gives is set aside. */
static void
wait_for_file(struct watcher *w, const char *path, int64_t until, const struct pgrab_host *host,
    struct pgrab_result *result)
{
	char events[4096];

	while (!(result->succeeded = is_there(path, host))) {
		struct pollfd fd[] = {
		    {.fd = w->inotify, .events = POLLIN}, {.fd = host->stop_fd, .events = POLLIN}};
		int64_t left = until - now_ms();

		if (left <= 0) {
			snprintf(result->error, sizeof result->error, "%.200s did not appear", path);
			return;
		}
		if (poll(fd, 2, left < INT_MAX ? (int)left : INT_MAX) < 0 && errno != EINTR) {
			snprintf(result->error, sizeof result->error, "could not wait: %s", strerror(errno));
			return;
		}
		if (host->stop(host->ctx) != PGRAB_STOP_NONE) {
			snprintf(result->error, sizeof result->error, "stopped");
			return;
		}
		while (read(w->inotify, events, sizeof events) > 0)
			;
	}
}

static void
file_run(void *self, const struct pgrab_run *run, const struct pgrab_host *host, struct pgrab_result *result)
{
	struct watcher *w = self;
	int64_t within = within_ms(run, result);
	char folder[PATH_MAX];
	int watch;

	if (within < 0)
		return;
	if (snprintf(folder, sizeof folder, "%s", run->command) >= (int)sizeof folder) {
		snprintf(
		    result->error, sizeof result->error, "the path is longer than %d bytes", PATH_MAX - 1);
		return;
	}
	/* Watched before it is looked for: otherwise a file that appears in between would be missed. */
	watch = inotify_add_watch(w->inotify, dirname(folder), IN_CREATE | IN_MOVED_TO);
	if (watch < 0) {
		snprintf(result->error, sizeof result->error, "could not watch the folder of %.200s: %s",
		    run->command, strerror(errno));
		return;
	}
	wait_for_file(w, run->command, now_ms() + within, host, result);
	inotify_rm_watch(w->inotify, watch);
}

static const struct pgrab_executor file = {
    .abi = PGRAB_EXECUTOR_ABI,
    .size = sizeof(struct pgrab_executor),
    .kind = "file",
    .summary = "wait until a file exists",
    .open = file_open,
    .close = file_close,
    .run = file_run,
};

const struct pgrab_executor *pgrab_executor_v2(void);

const struct pgrab_executor *
pgrab_executor_v2(void)
{
	return &file;
}
