/* The node's side: starts the keeper process, sends it spawn requests, keeps the lease in shared memory. */
#include "keeper/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/clock.h"
#include "keeper/proctree.h"
#include "keeper/wire.h"

#define READY_US (10 * US_PER_S)

struct keeper {
	pid_t pid;
	int spawn_fd;    /* SOCK_SEQPACKET; each request is one sendmsg, so workers need no lock */
	int lifeline_fd; /* writing end; nobody else has one */
	int64_t kill_grace_us;
	struct wire_lease *lease; /* shared memory */
};

struct ends {
	int spawn[2];
	int lifeline[2];
	int lease;
};

static enum rc
open_ends(struct ends *e, struct err *err)
{
	*e = (struct ends){{-1, -1}, {-1, -1}, -1};
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, e->spawn) != 0 ||
	    pipe2(e->lifeline, O_CLOEXEC) != 0)
		return err_set(err, RC_FATAL, "could not start the keeper: %s", strerror(errno));
	e->lease = memfd_create("pgrab-lease", MFD_CLOEXEC);
	if (e->lease < 0 || ftruncate(e->lease, sizeof(struct wire_lease)) != 0)
		return err_set(
		    err, RC_FATAL, "could not start the keeper: shared memory: %s", strerror(errno));
	return RC_OK;
}

static void
close_ends(struct ends *e)
{
	const int all[] = {e->spawn[0], e->spawn[1], e->lifeline[0], e->lifeline[1], e->lease};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i] >= 0)
			close(all[i]);
	}
}

/* In the child: the same program anew, with three descriptors, no environment and a session of its own. */
static _Noreturn void
become_keeper(const struct ends *e, int64_t kill_grace_us)
{
	char name[] = "pgrab", role[] = KEEPER_ARGV1, grace[32];
	char *const argv[] = {name, role, grace, NULL}, *const env[] = {NULL};
	const int from[] = {e->spawn[1], e->lease, e->lifeline[0]};
	int high[3];

	snprintf(grace, sizeof grace, "%" PRId64, kill_grace_us);
	/* First out of the way: they may sit where others have to go. */
	for (int i = 0; i < 3; i++)
		high[i] = fcntl(from[i], F_DUPFD, 64);
	for (int i = 0; i < 3; i++) {
		if (high[i] < 0 || dup2(high[i], WIRE_SPAWN + i) < 0)
			_exit(126);
	}
	close_range(WIRE__END, ~0U, 0);
	setsid();
	execve("/proc/self/exe", argv, env);
	_exit(127);
}

static enum rc
await_ready(struct keeper *k, struct err *err)
{
	struct pollfd p = {.fd = k->spawn_fd, .events = POLLIN};
	char word = 0;

	while (poll(&p, 1, (int)(READY_US / US_PER_MS)) < 0 && errno == EINTR)
		;
	if (recv(k->spawn_fd, &word, 1, MSG_DONTWAIT) != 1 || word != 'R')
		return err_set(err, RC_FATAL, "the keeper process did not come up; is /proc mounted?");
	return RC_OK;
}

enum rc
keeper_start(struct keeper **out, int64_t kill_grace_us, struct err *err)
{
	struct keeper *k;
	struct ends e;
	enum rc rc = open_ends(&e, err);
	pid_t pid = -1;

	*out = NULL;
	if (rc == RC_OK) {
		pid = fork();
		if (pid == 0)
			become_keeper(&e, kill_grace_us);
		if (pid < 0)
			rc = err_set(err, RC_FATAL, "could not start the keeper: %s", strerror(errno));
	}
	if (rc != RC_OK) {
		close_ends(&e);
		return rc;
	}
	k = xcalloc(1, sizeof *k);
	k->pid = pid;
	k->kill_grace_us = kill_grace_us;
	k->spawn_fd = e.spawn[0];
	k->lifeline_fd = e.lifeline[1];
	k->lease = mmap(NULL, sizeof *k->lease, PROT_READ | PROT_WRITE, MAP_SHARED, e.lease, 0);
	e.spawn[0] = e.lifeline[1] = -1;
	close_ends(&e);
	/* When the keeper is killed, its shims become ours: then we can see them end. */
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	if (k->lease == MAP_FAILED) {
		k->lease = NULL;
		rc = err_set(err, RC_FATAL, "could not start the keeper: shared memory: %s", strerror(errno));
	} else {
		rc = await_ready(k, err);
	}
	if (rc == RC_OK)
		*out = k;
	else
		keeper_stop(&k);
	return rc;
}

/* Waits for the end of a child with a deadline, and reaps it. */
static bool
await_exit(pid_t pid, int64_t until_us)
{
	struct pollfd p = {.fd = pidfd_open(pid, 0), .events = POLLIN};
	bool gone = true;

	while (waitpid(pid, NULL, WNOHANG) == 0) {
		gone = p.fd >= 0 &&
		       (poll(&p, 1, clock_poll_ms(clock_mono_us(), until_us)) > 0 || errno == EINTR) &&
		       clock_mono_us() < until_us;
		if (!gone)
			break;
	}
	if (p.fd >= 0)
		close(p.fd);
	return gone;
}

void
keeper_stop(struct keeper **kp)
{
	struct keeper *k = *kp;

	if (k == NULL)
		return;
	close(k->lifeline_fd);
	close(k->spawn_fd);
	if (!await_exit(k->pid, clock_mono_us() + k->kill_grace_us + 2 * US_PER_S)) {
		/* It should not be; then by force, everything below it and it. */
		proctree_signal(k->pid, SIGKILL, NULL, 0);
		kill(k->pid, SIGKILL);
		await_exit(k->pid, clock_mono_us() + US_PER_S);
	}
	if (k->lease != NULL)
		munmap(k->lease, sizeof *k->lease);
	free(k);
	*kp = NULL;
}

void
keeper_lease(struct keeper *k, int64_t deadline_boot_us)
{
	atomic_store(&k->lease->until_boot_us, deadline_boot_us);
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

static int32_t
add_strings(struct buf *b, const char *const *list)
{
	int32_t n = 0;

	for (; *list != NULL; list++, n++)
		buf_add(b, *list, strlen(*list) + 1);
	return n;
}

/* The spec in a memfd; -1 with *err set. */
static int
write_spec(const struct keeper_spec *spec, enum rc *rc_out, struct err *err)
{
	struct wire_spec head = {0};
	struct buf b = {0};
	int fd = -1;

	buf_add(&b, &head, sizeof head);
	buf_add(&b, spec->cwd == NULL ? "" : spec->cwd, spec->cwd == NULL ? 1 : strlen(spec->cwd) + 1);
	head.argc = add_strings(&b, spec->argv);
	head.envc = add_strings(&b, spec->env);
	memcpy(b.data, &head, sizeof head);
	if (b.len > WIRE_SPEC_MAX) {
		*rc_out = err_set(err, RC_BAD, "arguments and environment are together larger than 1 MiB");
		goto out;
	}
	fd = memfd_create("pgrab-spec", MFD_CLOEXEC);
	if (fd < 0 || write(fd, b.data, b.len) != (ssize_t)b.len) {
		*rc_out = err_set(err, RC_AGAIN, "could not start a process: %s", strerror(errno));
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
out:
	buf_fini(&b);
	return fd;
}

static enum rc
send_request(struct keeper *k, const int *fd, int n_fds, struct err *err)
{
	struct wire_spawn head = {.has_stdin = n_fds == WIRE_FD__COUNT};
	struct iovec iov = {.iov_base = &head, .iov_len = sizeof head};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * WIRE_FD__COUNT)];
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)n_fds)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	ssize_t n;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)n_fds);
	memcpy(CMSG_DATA(c), fd, sizeof(int) * (size_t)n_fds);
	while ((n = sendmsg(k->spawn_fd, &msg, MSG_NOSIGNAL)) < 0 && errno == EINTR)
		;
	if (n >= 0)
		return RC_OK;
	if (errno == EPIPE || errno == ECONNRESET)
		return err_set(err, RC_FATAL, "the keeper process is gone");
	return err_set(err, RC_AGAIN, "could not start a process: %s", strerror(errno));
}

enum rc
keeper_spawn(struct keeper *k, const struct keeper_spec *spec, int *run_fd_out, struct err *err)
{
	enum rc rc = RC_OK;
	int spec_fd = write_spec(spec, &rc, err), run[2];

	*run_fd_out = -1;
	if (spec_fd < 0)
		return rc;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, run) != 0) {
		rc = err_set(err, RC_AGAIN, "could not start a process: %s", strerror(errno));
	} else {
		const int fd[WIRE_FD__COUNT] = {spec_fd, run[1], spec->output_fd, spec->stdin_fd};

		rc = send_request(k, fd, spec->stdin_fd >= 0 ? WIRE_FD__COUNT : WIRE_FD__COUNT - 1, err);
		close(run[1]);
		if (rc == RC_OK)
			*run_fd_out = run[0];
		else
			close(run[0]);
	}
	close(spec_fd);
	return rc;
}
