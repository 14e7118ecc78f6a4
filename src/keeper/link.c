#include "keeper/keeper_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "keeper/wire.h"

#define READY_TIMEOUT_US (10 * US_PER_S)

static enum rc
cannot_start(struct err *err, const char *what, int error)
{
	return err_set(
	    err, RC_FATAL, "could not start the keeper process: %s: %s", what, strerrordesc_np(error));
}

/* theirs[i] becomes the descriptor WIRE_FIRST_FD + i of the keeper. */
static enum rc
open_channels(struct link *l, const struct link_setup *setup, int theirs[WIRE_FDS], struct err *err)
{
	int pair[2], line[2], presence[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return cannot_start(err, "socketpair", errno);
	l->spawn_fd = pair[0];
	theirs[WIRE_SPAWN_FD - WIRE_FIRST_FD] = pair[1];
	if (pipe2(line, O_CLOEXEC) != 0)
		return cannot_start(err, "pipe", errno);
	theirs[WIRE_LIFELINE_FD - WIRE_FIRST_FD] = line[0];
	l->lifeline_fd = line[1];
	if (pipe2(presence, O_CLOEXEC) != 0)
		return cannot_start(err, "pipe", errno);
	l->presence_fd = presence[0];
	theirs[WIRE_PRESENCE_FD - WIRE_FIRST_FD] = presence[1];
	/* Copies of what is the caller's, so that all of theirs can be closed. */
	theirs[WIRE_PAGE_FD - WIRE_FIRST_FD] = fcntl(setup->page_fd, F_DUPFD_CLOEXEC, WIRE__END_FD);
	if (setup->farewell != NULL)
		theirs[WIRE_WILL_FD - WIRE_FIRST_FD] = fcntl(setup->will_fd, F_DUPFD_CLOEXEC, WIRE__END_FD);
	if (theirs[WIRE_PAGE_FD - WIRE_FIRST_FD] < 0 ||
	    (setup->farewell != NULL && theirs[WIRE_WILL_FD - WIRE_FIRST_FD] < 0))
		return cannot_start(err, "dup", errno);
	return RC_OK;
}

/* Moves them out of the way of the numbers that they are to get. */
static enum rc
move_up(int theirs[WIRE_FDS], struct err *err)
{
	for (int i = 0; i < WIRE_FDS; i++) {
		int high;

		if (theirs[i] < 0)
			continue;
		high = fcntl(theirs[i], F_DUPFD_CLOEXEC, WIRE__END_FD);
		if (high < 0)
			return cannot_start(err, "dup", errno);
		close(theirs[i]);
		theirs[i] = high;
	}
	return RC_OK;
}

/* Executes this program again, so that nothing of the node's memory or environment is in reach of what the
 * keeper forks.  posix_spawn, because the node may have threads by now. */
static enum rc
launch(struct link *l, const struct link_setup *setup, const int theirs[WIRE_FDS], struct err *err)
{
	char grace[32], nofile[32];
	char *argv[] = {(char *)"pgrab", (char *)KEEPER_ARGV1, grace,
	    (char *)(setup->cgroups ? "cgroups" : "plain"), nofile, (char *)setup->farewell, NULL};
	char *env[] = {NULL};
	posix_spawn_file_actions_t actions;
	int error;

	snprintf(grace, sizeof grace, "%" PRId64, setup->kill_grace_us);
	snprintf(nofile, sizeof nofile, "%" PRIu64, setup->nofile);
	error = posix_spawn_file_actions_init(&actions);
	if (error != 0)
		return cannot_start(err, "spawn", error);
	for (int i = 0; error == 0 && i < WIRE_FDS; i++) {
		if (theirs[i] >= 0)
			error = posix_spawn_file_actions_adddup2(&actions, theirs[i], WIRE_FIRST_FD + i);
	}
	if (error == 0)
		error = posix_spawn_file_actions_addclosefrom_np(
		    &actions, setup->farewell != NULL ? WIRE__END_FD : WIRE_WILL_FD);
	if (error == 0)
		error = posix_spawn(&l->pid, "/proc/self/exe", &actions, NULL, argv, env);
	posix_spawn_file_actions_destroy(&actions);
	if (error != 0) {
		l->pid = 0;
		return cannot_start(err, "spawn", error);
	}
	return RC_OK;
}

bool
link_readable(int fd, int64_t until_us)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, clock_poll_ms(clock_mono_us(), until_us));
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static enum rc
await_ready(const struct link *l, struct err *err)
{
	char word = 0;

	if (!link_readable(l->spawn_fd, clock_mono_us() + READY_TIMEOUT_US))
		return err_set(err, RC_FATAL, "could not start the keeper process: it does not answer");
	if (recv(l->spawn_fd, &word, 1, MSG_DONTWAIT) != 1 || word != WIRE_READY)
		return err_set(err, RC_FATAL,
		    "could not start the keeper process: it ended at once (can this program be executed "
		    "again with an empty environment?)");
	return RC_OK;
}

enum rc
link_open(struct link *l, const struct link_setup *setup, struct err *err)
{
	int theirs[WIRE_FDS];
	enum rc rc;

	*l = LINK_NONE;
	for (int i = 0; i < WIRE_FDS; i++)
		theirs[i] = -1;
	rc = open_channels(l, setup, theirs, err);
	if (rc == RC_OK)
		rc = move_up(theirs, err);
	if (rc == RC_OK)
		rc = launch(l, setup, theirs, err);
	for (int i = 0; i < WIRE_FDS; i++)
		close_fd(&theirs[i]);
	if (rc == RC_OK)
		rc = await_ready(l, err);
	if (rc != RC_OK) {
		link_kill(l);
		link_close(l);
	}
	return rc;
}

void
link_kill(struct link *l)
{
	if (l->pid > 0) {
		kill(l->pid, SIGKILL); /* no harm if it has ended: it is ours until waited for */
		while (waitpid(l->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	l->pid = 0;
	close_fd(&l->spawn_fd);
	close_fd(&l->lifeline_fd);
}

void
link_close(struct link *l)
{
	close_fd(&l->spawn_fd);
	close_fd(&l->lifeline_fd);
	close_fd(&l->presence_fd);
}
