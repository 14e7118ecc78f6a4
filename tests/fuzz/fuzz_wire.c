/*
 * What node and keeper hand to each other: the memory file of a run, its datagram, and the words of
 * a shim.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/child_end.h"
#include "fuzz.h"
#include "keeper/wire.h"

static void
same_list(const char *const *a, const char *const *b)
{
	for (; *a != NULL && *b != NULL; a++, b++)
		MUST(strcmp(*a, *b) == 0);
	MUST(*a == NULL && *b == NULL);
}

/* What was read is written again, and read as the same. */
static void
again(const struct wire_spec *spec)
{
	const struct keeper_spec next = {.argv = spec->argv,
	    .env = spec->env,
	    .cwd = spec->cwd,
	    .umask = spec->umask,
	    .nice = spec->nice,
	    .limits = spec->limits,
	    .user = spec->user,
	    .talks = spec->talks};
	struct wire_spec back;
	struct err err = {0};
	int fd;

	if (wire_pack(&next, &fd, &err) != RC_OK)
		return; /* larger than what is written */
	MUST(wire_unpack(fd, &back) == RC_OK);
	same_list(spec->argv, back.argv);
	same_list(spec->env, back.env);
	MUST(strcmp(spec->cwd, back.cwd) == 0 && back.nice == spec->nice && back.talks == spec->talks);
	MUST(back.user.set == spec->user.set && back.user.uid == spec->user.uid);
	MUST(back.user.n_groups == spec->user.n_groups);
	wire_spec_fini(&back);
	close(fd);
}

static void
unpack(const uint8_t *data, size_t size)
{
	int fd = memfd_create("wire", MFD_CLOEXEC);
	struct wire_spec spec;

	MUST(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	if (wire_unpack(fd, &spec) == RC_OK) {
		MUST(spec.argv[0] != NULL && spec.cwd != NULL);
		again(&spec);
	}
	wire_spec_fini(&spec);
	close(fd);
}

/* With none to seven descriptors, of which at most five belong there. */
static void
receive(const uint8_t *data, size_t size)
{
	size_t n_fds = size == 0 ? 0 : data[0] % 8;
	int pair[2], came[WIRE_FD__COUNT], fds[7], n;
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(sizeof fds)];
	} control = {0};
	struct iovec iov = {(void *)data, size};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	for (size_t i = 0; i < n_fds; i++)
		fds[i] = pair[0];
	if (n_fds > 0) {
		msg.msg_control = control.space;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		*CMSG_FIRSTHDR(&msg) = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
		    .cmsg_type = SCM_RIGHTS,
		    .cmsg_len = CMSG_LEN(n_fds * sizeof(int))};
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, n_fds * sizeof(int));
	}
	(void)sendmsg(pair[0], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	n = wire_receive(pair[1], came);
	MUST(n >= -2 && n <= WIRE_FD__COUNT);
	for (int i = 0; i < n; i++)
		MUST(fcntl(came[i], F_GETFD) == FD_CLOEXEC && close(came[i]) == 0);
	close(pair[0]);
	close(pair[1]);
}

static void
explain(const uint8_t *data, size_t size)
{
	struct child_end end = {.stop = size == 0 ? PGRAB_STOP_NONE : data[0] % 5};
	struct pgrab_result result = {.size = sizeof result};
	size_t n = size < sizeof end.last ? size : sizeof end.last;

	memcpy(&end.last, data, n);
	end.last.where[sizeof end.last.where - 1] = '\0'; /* as child.c does */
	child_end_output(&end, (const char *)data + n, size - n);
	child_explain(&end, "program", "/", &result);
	MUST(fuzz_printable(result.error, strlen(result.error)));
	MUST(result.succeeded == (result.error[0] == '\0'));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	unpack(data, size);
	receive(data, size);
	explain(data, size);
	return 0;
}
