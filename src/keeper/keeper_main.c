/*
 * The keeper process: one thread, no database, no environment.  It forks shims and reaps them; it kills what
 * is left of a run whose shim was killed by somebody (everything below the keeper that is not below a shim),
 * and ends when the node has gone and the last shim is done.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "keeper/keeper.h"
#include "keeper/proctree.h"
#include "keeper/wire.h"

#define SHIMS_MAX 4096
#define SWEEP_MS  50

struct process {
	int64_t kill_grace_us;
	const struct wire_lease *lease;
	int children_fd;   /* signalfd of SIGCHLD */
	int alive_pipe[2]; /* we hold the writing end: shims see our death as its end */
	pid_t shim[SHIMS_MAX];
	size_t n_shims;
	bool node_gone;
	bool strays; /* a shim was killed: something may be left of its run */
};

static void
close_all(const int *fd, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (fd[i] >= 0)
			close(fd[i]);
	}
}

static void
refuse(int run_fd, int error)
{
	struct keeper_msg m = {.event = KEEPER_NOT_STARTED, .value = error, .where = "fork"};

	(void)!send(run_fd, &m, sizeof m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void
fork_shim(struct process *k, const int fd[WIRE_FD__COUNT])
{
	struct shim_order order = {
	    .keeper_alive_fd = k->alive_pipe[0], .kill_grace_us = k->kill_grace_us, .lease = k->lease};
	pid_t pid;

	memcpy(order.fd, fd, sizeof order.fd);
	if (k->n_shims == SHIMS_MAX) {
		refuse(fd[WIRE_FD_RUN], EAGAIN);
		return;
	}
	pid = fork();
	if (pid == 0) {
		close(k->alive_pipe[1]);
		close(WIRE_SPAWN);
		close(k->children_fd);
		shim_main(&order);
	}
	if (pid < 0)
		refuse(fd[WIRE_FD_RUN], errno);
	else
		k->shim[k->n_shims++] = pid;
}

/* One request.  False: the node is gone. */
static bool
take_request(struct process *k)
{
	struct wire_spawn head;
	struct iovec iov = {.iov_base = &head, .iov_len = sizeof head};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * WIRE_FD__COUNT)];
	} control;
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.bytes,
	    .msg_controllen = sizeof control.bytes};
	int fd[WIRE_FD__COUNT] = {-1, -1, -1, -1};
	ssize_t n = recvmsg(WIRE_SPAWN, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	struct cmsghdr *c;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len > CMSG_LEN(0)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		memcpy(fd, CMSG_DATA(c), (count < WIRE_FD__COUNT ? count : WIRE_FD__COUNT) * sizeof(int));
	}
	/* Out of descriptors the kernel drops some: then the run socket closes, and the worker sees that
	 * nothing was started. */
	if (n == (ssize_t)sizeof head && fd[WIRE_FD_OUTPUT] >= 0 &&
	    (fd[WIRE_FD_STDIN] >= 0) == (head.has_stdin != 0))
		fork_shim(k, fd);
	else if (fd[WIRE_FD_RUN] >= 0)
		refuse(fd[WIRE_FD_RUN], EMFILE);
	close_all(fd, WIRE_FD__COUNT);
	return true;
}

static void
reap(struct process *k)
{
	struct signalfd_siginfo ignored[8];
	int status;
	pid_t pid;

	while (read(k->children_fd, ignored, sizeof ignored) > 0)
		;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < k->n_shims; i++) {
			if (k->shim[i] == pid) {
				k->shim[i] = k->shim[--k->n_shims];
				k->strays = k->strays || !WIFEXITED(status);
				break;
			}
		}
	}
	if (k->strays)
		k->strays = proctree_signal(getpid(), SIGKILL, k->shim, k->n_shims) != 0;
}

static void
loop(struct process *k)
{
	while (!k->node_gone || k->n_shims > 0 || k->strays) {
		struct pollfd p[2] = {
		    {.fd = k->children_fd, .events = POLLIN},
		    {.fd = k->node_gone ? -1 : WIRE_SPAWN, .events = POLLIN},
		};

		if (poll(p, 2, k->strays ? SWEEP_MS : -1) < 0 && errno != EINTR)
			return;
		reap(k);
		if (p[1].revents != 0 && !take_request(k))
			k->node_gone = true;
	}
}

int
keeper_main(int argc, char **argv)
{
	static struct process k;
	sigset_t block;

	if (argc < 3)
		return 2;
	k.kill_grace_us = strtoll(argv[2], NULL, 10);
	k.lease = mmap(NULL, sizeof *k.lease, PROT_READ, MAP_SHARED, WIRE_LEASE, 0);
	prctl(PR_SET_NAME, "pgrab-keeper", 0, 0, 0);
	prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
	/* A TERM to the whole group is for the node: it decides what ends when. */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&block);
	sigaddset(&block, SIGCHLD);
	sigprocmask(SIG_BLOCK, &block, NULL);
	k.children_fd = signalfd(-1, &block, SFD_CLOEXEC | SFD_NONBLOCK);
	if (k.lease == MAP_FAILED || k.children_fd < 0 || pipe2(k.alive_pipe, O_CLOEXEC) != 0 ||
	    send(WIRE_SPAWN, "R", 1, MSG_NOSIGNAL) != 1)
		return 1;
	loop(&k);
	return 0;
}
