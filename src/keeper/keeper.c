/*
 * The node's side of the keeper: starts it, moves the lease, hands it runs,
 * sees it off.
 *
 * Four things tie the two processes together: the lifeline, a pipe whose
 * writing end nobody but the node ever holds; its counterpart, the presence, a
 * pipe whose writing end the keeper and its shims hold; the spawn socket, on
 * which the keeper says once that it is ready and never writes again, so that
 * our end becomes readable exactly when the keeper is gone; and one page of
 * shared memory with the lease.
 */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "keeper/wire.h"

#define READY_TIMEOUT_US (20 * US_PER_S)
#define STOP_SLACK_US    (2 * US_PER_S)

/* Made before any thread and not changed until keeper_stop; only *lease is
 * written, by an atomic store. */
struct keeper {
	pid_t pid;
	int spawn_fd;    /* to the keeper; many workers may send at once, each request is one datagram */
	int lifeline_fd; /* our end; closing it, also by dying, ends the keeper and all runs */
	int presence_fd; /* end of file: the keeper and all shims are gone */
	int64_t kill_grace_us;
	_Atomic int64_t *lease;
};

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static enum rc
cannot_start(struct err *err, const char *what)
{
	return err_set(
	    err, RC_FATAL, "could not start the keeper process: %s: %s", what, strerrordesc_np(errno));
}

/* theirs[i] becomes the descriptor WIRE_FIRST_FD + i of the keeper. */
static enum rc
open_channels(struct keeper *k, int theirs[WIRE_FDS], struct err *err)
{
	int pair[2], line[2], presence[2], lease_fd;
	void *page;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return cannot_start(err, "socketpair");
	k->spawn_fd = pair[0];
	theirs[WIRE_SPAWN_FD - WIRE_FIRST_FD] = pair[1];
	if (pipe2(line, O_CLOEXEC) != 0)
		return cannot_start(err, "pipe");
	theirs[WIRE_LIFELINE_FD - WIRE_FIRST_FD] = line[0];
	k->lifeline_fd = line[1];
	if (pipe2(presence, O_CLOEXEC) != 0)
		return cannot_start(err, "pipe");
	k->presence_fd = presence[0];
	theirs[WIRE_PRESENCE_FD - WIRE_FIRST_FD] = presence[1];
	lease_fd = memfd_create("pgrab-lease", MFD_CLOEXEC);
	theirs[WIRE_LEASE_FD - WIRE_FIRST_FD] = lease_fd;
	if (lease_fd < 0 || ftruncate(lease_fd, WIRE_LEASE_LEN) != 0)
		return cannot_start(err, "shared memory");
	page = mmap(NULL, WIRE_LEASE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, lease_fd, 0);
	if (page == MAP_FAILED)
		return cannot_start(err, "mmap");
	k->lease = page; /* a new page is zero: nothing may run yet */
	return RC_OK;
}

/* In the forked child: puts the descriptors where the keeper looks for them,
 * and executes this program anew, so that nothing of the node's memory or
 * environment is in reach of what the keeper forks. */
static _Noreturn void
become_keeper(const int theirs[WIRE_FDS], int64_t kill_grace_us)
{
	char grace[32];
	char *const argv[] = {(char *)"pgrab", (char *)KEEPER_ARGV1, grace, NULL};
	char *const env[] = {NULL};
	int high[WIRE_FDS];

	snprintf(grace, sizeof grace, "%" PRId64, kill_grace_us);
	for (int i = 0; i < WIRE_FDS; i++)
		high[i] = fcntl(theirs[i], F_DUPFD_CLOEXEC, WIRE__END_FD);
	for (int i = 0; i < WIRE_FDS; i++) {
		if (high[i] < 0 || dup2(high[i], WIRE_FIRST_FD + i) < 0)
			_exit(127);
	}
	close_range(WIRE__END_FD, ~0U, 0);
	execve("/proc/self/exe", argv, env);
	_exit(127);
}

static enum rc
launch(struct keeper *k, const int theirs[WIRE_FDS], struct err *err)
{
	k->pid = fork();
	if (k->pid == 0)
		become_keeper(theirs, k->kill_grace_us);
	return k->pid < 0 ? cannot_start(err, "fork") : RC_OK;
}

/* True when it became readable in time. */
static bool
wait_readable(int fd, int64_t until_us)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int n;

	do
		n = poll(&p, 1, clock_poll_ms(clock_mono_us(), until_us));
	while (n < 0 && errno == EINTR);
	return n > 0;
}

static enum rc
await_ready(struct keeper *k, struct err *err)
{
	char word = 0;

	if (!wait_readable(k->spawn_fd, clock_mono_us() + READY_TIMEOUT_US))
		return err_set(err, RC_FATAL, "could not start the keeper process: it does not answer");
	if (recv(k->spawn_fd, &word, 1, MSG_DONTWAIT) != 1 || word != WIRE_READY)
		return err_set(err, RC_FATAL,
		    "could not start the keeper process: it ended at once (can "
		    "this program be executed "
		    "again with an empty environment?)");
	return RC_OK;
}

/* Kills what is still there, waits for it and frees. */
static void
discard(struct keeper *k)
{
	if (k->pid > 0) {
		kill(k->pid, SIGKILL); /* no harm if it has ended: it is ours until waited for */
		while (waitpid(k->pid, NULL, 0) < 0 && errno == EINTR)
			;
	}
	close_fd(&k->spawn_fd);
	close_fd(&k->lifeline_fd);
	close_fd(&k->presence_fd);
	if (k->lease != NULL)
		munmap((void *)k->lease, WIRE_LEASE_LEN);
	free(k);
}

enum rc
keeper_start(struct keeper **out, int64_t kill_grace_us, struct err *err)
{
	struct keeper *k = xcalloc(1, sizeof *k);
	int theirs[WIRE_FDS];
	enum rc rc;

	*out = NULL;
	k->spawn_fd = k->lifeline_fd = k->presence_fd = -1;
	for (int i = 0; i < WIRE_FDS; i++)
		theirs[i] = -1;
	k->kill_grace_us = kill_grace_us;
	rc = open_channels(k, theirs, err);
	if (rc == RC_OK)
		rc = launch(k, theirs, err);
	for (int i = 0; i < WIRE_FDS; i++)
		close_fd(&theirs[i]);
	if (rc == RC_OK)
		rc = await_ready(k, err);
	if (rc == RC_OK)
		*out = k;
	else
		discard(k);
	return rc;
}

void
keeper_stop(struct keeper **k)
{
	struct keeper *old = *k;

	if (old == NULL)
		return;
	*k = NULL;
	keeper_lease(old, 0);
	close_fd(&old->lifeline_fd);
	if (!wait_readable(old->presence_fd, clock_mono_us() + old->kill_grace_us + STOP_SLACK_US))
		log_warn("keeper_kill", "pid=%d reason=\"did not end in time\"", (int)old->pid);
	discard(old);
}

void
keeper_lease(struct keeper *k, int64_t deadline_boot_us)
{
	atomic_store(k->lease, deadline_boot_us);
}

pid_t
keeper_pid(const struct keeper *k)
{
	return k->pid;
}

int
keeper_alive_fd(const struct keeper *k)
{
	return k->spawn_fd;
}

/* One datagram, so requests of several workers never mix; never blocks: a
 * keeper that does not read is in trouble, and the run is better off elsewhere.
 */
static enum rc
send_request(struct keeper *k, const int fds[WIRE_FD__COUNT], size_t n_fds, struct err *err)
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(WIRE_FD__COUNT * sizeof(int))];
	} control = {0};
	char word = WIRE_RUN;
	struct iovec iov = {.iov_base = &word, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.space,
	    .msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	ssize_t n;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	do
		n = sendmsg(k->spawn_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return RC_OK;
	if (errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN)
		return err_set(err, RC_FATAL, "the keeper process is gone");
	return err_set(err, RC_AGAIN, "could not ask the keeper for a run: %s", strerrordesc_np(errno));
}

enum rc
keeper_spawn(struct keeper *k, const struct keeper_spec *spec, int *run_fd_out, struct err *err)
{
	int fds[WIRE_FD__COUNT] = {-1, -1, spec->output_fd, spec->stdin_fd};
	size_t n_fds = spec->stdin_fd < 0 ? WIRE_FD_STDIN : WIRE_FD__COUNT;
	int pair[2] = {-1, -1};
	enum rc rc;

	*run_fd_out = -1;
	rc = wire_pack(spec, &fds[WIRE_FD_SPEC], err);
	if (rc == RC_OK && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		rc =
		    err_set(err, RC_AGAIN, "could not make a socket for the run: %s", strerrordesc_np(errno));
	if (rc == RC_OK) {
		fds[WIRE_FD_RUN] = pair[1];
		rc = send_request(k, fds, n_fds, err);
	}
	if (rc == RC_OK) {
		*run_fd_out = pair[0];
		pair[0] = -1;
	}
	close_fd(&pair[0]);
	close_fd(&pair[1]);
	close_fd(&fds[WIRE_FD_SPEC]);
	return rc;
}
