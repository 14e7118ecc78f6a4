/*
 * For tests of the keeper: asks for runs, listens to them, and knows when a
 * process is gone.
 *
 * The test is subreaper, so that whatever a dead keeper leaves behind becomes
 * its child: "no child left" then says that nothing has survived.  Every wait
 * has a deadline and an event to wait for.
 */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "keeper/keeper.h"

#define GRACE_US   (300 * US_PER_MS)
#define PATIENCE_S 15 /* for what must happen; the machine may be busy */

struct trial {
	int run_fd;
	uint64_t life; /* of the keeper */
	int out_fd;    /* the reading end of stdout and stderr */
};

static inline struct keeper *
keeper_for_test(void)
{
	const struct keeper_setup setup = {.kill_grace_us = GRACE_US, .will_fd = -1};
	struct keeper *k = NULL;
	struct err err = {0};

	if (keeper_start(&k, &setup, &err) != RC_OK)
		fail_msg("%s", err.text);
	keeper_lease(k, CLOCK_NEVER);
	return k;
}

static inline struct trial
trial_of(struct keeper *k, struct keeper_spec spec)
{
	struct trial t = {.run_fd = -1, .out_fd = -1};
	struct keeper_run run;
	struct err err = {0};
	int out[2];

	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	spec.output_fd = out[1];
	if (keeper_spawn(k, &spec, &run, &err) != RC_OK)
		fail_msg("%s", err.text);
	t.run_fd = run.fd;
	t.life = run.life;
	close(out[1]);
	t.out_fd = out[0];
	return t;
}

static const char *const plain_env[] = {"PATH=/usr/bin:/bin", NULL};

static inline struct trial
trial_sh(struct keeper *k, const char *line)
{
	const char *const argv[] = {"/bin/sh", "-c", line, NULL};

	return trial_of(k, (struct keeper_spec){.argv = argv, .env = plain_env, .stdin_fd = -1});
}

static inline void
trial_end(struct trial *t)
{
	close(t->run_fd);
	close(t->out_fd);
}

static inline bool
readable_within(int fd, int64_t us)
{
	int64_t until = clock_mono_us() + us;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, clock_poll_ms(clock_mono_us(), until));
	while (n < 0 && errno == EINTR);
	return n > 0;
}

/* The next message; event 0: end of file. */
static inline struct keeper_msg
next_message(const struct trial *t)
{
	struct keeper_msg m = {0};
	ssize_t n;

	if (!readable_within(t->run_fd, PATIENCE_S * US_PER_S))
		fail_msg("the shim says nothing");
	n = recv(t->run_fd, &m, sizeof m, 0);
	assert_true(n == 0 || n == (ssize_t)sizeof m);
	return m;
}

static inline pid_t
expect_started(const struct trial *t)
{
	struct keeper_msg m = next_message(t);

	if (m.event != KEEPER_STARTED)
		fail_msg("event %d value %d where %s", m.event, m.value, m.where);
	return m.value;
}

static inline struct keeper_msg
expect_exited(const struct trial *t)
{
	struct keeper_msg m = next_message(t);

	assert_int_equal(m.event, KEEPER_EXITED);
	return m;
}

static inline void
expect_not_started(const struct trial *t, int error, const char *where)
{
	struct keeper_msg m = next_message(t);

	assert_int_equal(m.event, KEEPER_NOT_STARTED);
	assert_int_equal(m.value, error);
	if (where != NULL)
		assert_string_equal(m.where, where);
}

/* The keeper's word that a run is over whose shim was killed, and the end. */
static inline void
expect_gone(const struct trial *t)
{
	assert_int_equal(next_message(t).event, KEEPER_GONE);
	assert_int_equal(next_message(t).event, 0);
}

/* The end, without another message. */
static inline void
expect_eof(const struct trial *t)
{
	assert_int_equal(next_message(t).event, 0);
}

/* Reads until `stop` has been seen (NULL: until end of file). */
static inline void
read_until(int fd, struct buf *b, const char *stop)
{
	char bytes[65536];
	ssize_t n = 1;

	while (n > 0 && (stop == NULL || strstr(buf_str(b), stop) == NULL)) {
		if (!readable_within(fd, PATIENCE_S * US_PER_S))
			fail_msg("no end of output; got \"%.200s\"", buf_str(b));
		n = read(fd, bytes, sizeof bytes);
		assert_true(n >= 0);
		buf_add(b, bytes, (size_t)n);
	}
}

/* A number that the run prints on a line of its own. */
static inline pid_t
read_pid(int fd)
{
	struct buf b = {0};
	pid_t pid;

	read_until(fd, &b, "\n");
	pid = (pid_t)atoi(buf_str(&b));
	buf_fini(&b);
	assert_true(pid > 1);
	return pid;
}

static inline void
expect_output(const struct trial *t, const char *want)
{
	struct buf b = {0};

	read_until(t->out_fd, &b, NULL);
	assert_string_equal(buf_str(&b), want);
	buf_fini(&b);
}

/* Gone, or a zombie, which no longer runs. */
static inline bool
dead_within(pid_t pid, int64_t us)
{
	int fd = pidfd_open(pid, 0);
	bool dead = fd < 0 || readable_within(fd, us);

	if (fd >= 0)
		close(fd);
	return dead;
}

static inline void
expect_dead(pid_t pid)
{
	if (!dead_within(pid, PATIENCE_S * US_PER_S))
		fail_msg("process %d is still alive", (int)pid);
}

/* -1: there is no such process. */
static inline pid_t
parent_of(pid_t pid)
{
	char path[64];
	int parent = -1;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	f = fopen(path, "re");
	if (f != NULL) {
		if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
			parent = -1;
		fclose(f);
	}
	return parent;
}

/* And two, for the names in an empty folder.  Only these where it is not dumpable, as keeper and shims, and
 * we are not root. */
static inline int
count_fds(pid_t pid)
{
	char path[64];
	int n = 0;
	DIR *d;

	snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (d == NULL && errno == EACCES)
		return 2;
	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

/* Zombies too. */
static inline int
count_children(pid_t pid)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	int n = 0;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		n += atoi(e->d_name) > 0 && parent_of((pid_t)atoi(e->d_name)) == pid;
	closedir(d);
	return n;
}

/* Reaps all children of the test; they must have ended or be about to. */
static inline void
expect_nothing_left(void)
{
	int64_t until = clock_mono_us() + PATIENCE_S * US_PER_S;
	struct timespec wait;
	sigset_t child;
	pid_t pid;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD); /* blocked in main, so that none is missed */
	while ((pid = waitpid(-1, NULL, WNOHANG)) >= 0) {
		int64_t left = until - clock_mono_us();

		if (left <= 0)
			fail_msg("something has survived");
		wait = clock_timespec(left);
		if (pid == 0)
			(void)sigtimedwait(&child, NULL, &wait);
	}
	assert_int_equal(errno, ECHILD);
}

static inline void
stop_run(const struct trial *t)
{
	keeper_stop_run(&(struct keeper_run){.fd = t->run_fd, .life = t->life});
}

static inline void
become_subreaper(void)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
}

#define HOP_ARGV1 "__hop"

/* A process that is never there: it forks, in a session of its own each time, and exits.  The first
 * one says so. */
static inline int
hop(void)
{
	int64_t until = clock_mono_us() + 20 * US_PER_S;

	signal(SIGTERM, SIG_IGN);
	for (bool first = true; clock_mono_us() < until; first = false) {
		if (first && write(STDOUT_FILENO, "ready\n", 6) != 6)
			return 1;
		if (fork() != 0)
			_exit(0);
		setsid();
	}
	return 0;
}

/* A run that hops by now. */
static inline struct trial
start_hop(struct keeper *k)
{
	char self[4096] = {0};
	const char *const argv[] = {
	    "/bin/sh", "-c", "trap '' TERM; \"$0\" " HOP_ARGV1 "; sleep 100; :", self, NULL};
	struct buf b = {0};
	struct trial t;

	assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
	t = trial_of(k, (struct keeper_spec){.argv = argv, .env = plain_env, .stdin_fd = -1});
	read_until(t.out_fd, &b, "ready");
	buf_fini(&b);
	return t;
}

/* The shim of a run that has ended by itself. */
static inline pid_t
idle_shim(struct keeper *k)
{
	struct trial t = trial_sh(k, "exit 0");
	pid_t shim;

	expect_started(&t);
	shim = expect_exited(&t).shim;
	trial_end(&t);
	return shim;
}

/* For a test, or a group of tests, with a keeper of its own. */
static struct keeper *keeper;

static inline int
start_keeper(void **state)
{
	keeper = keeper_for_test();
	return 0;
}

static inline int
stop_keeper(void **state)
{
	keeper_stop(&keeper);
	assert_null(keeper);
	expect_nothing_left();
	return 0;
}

#define WITH_KEEPER(f) cmocka_unit_test_setup_teardown(f, start_keeper, stop_keeper)
