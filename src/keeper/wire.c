/* The memory file: a head with the counts, then the groups of the user, then the strings of argv and env and
 * cwd, each with its NUL. */
#include "keeper/wire.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/fd.h"

struct head {
	uint32_t argc, envc;
	int32_t umask, nice;
	int32_t talks;
	struct keeper_limits limits;
	uint32_t user_set, uid, gid, n_groups;
};

static uint32_t
add_strings(struct buf *b, const char *const *list)
{
	uint32_t n = 0;

	for (; list[n] != NULL; n++)
		buf_add(b, list[n], strlen(list[n]) + 1);
	return n;
}

/* Counted first, so that a command that is too large is refused before it is copied. */
static size_t
total_bytes(const char *const *list)
{
	size_t n = 0;

	for (size_t i = 0; list[i] != NULL && n <= WIRE_SPEC_MAX; i++)
		n += strlen(list[i]) + 1;
	return n;
}

enum rc
wire_pack(const struct keeper_spec *spec, int *fd_out, struct err *err)
{
	struct head head = {.umask = spec->umask == 0 ? 077 : spec->umask,
	    .nice = spec->nice,
	    .talks = spec->talks,
	    .limits = spec->limits,
	    .user_set = spec->user.set,
	    .uid = spec->user.uid,
	    .gid = spec->user.gid,
	    .n_groups = (uint32_t)spec->user.n_groups};
	AUTO_BUF struct buf b = {0};
	const char *cwd = spec->cwd == NULL ? "/" : spec->cwd;

	*fd_out = -1;
	if (total_bytes(spec->argv) + total_bytes(spec->env) + strlen(cwd) > WIRE_SPEC_MAX)
		return err_set(err, RC_BAD,
		    "the command line and the environment are together larger than %d bytes; hand large data "
		    "over through stdin",
		    WIRE_SPEC_MAX);
	if (spec->user.n_groups > KEEPER_GROUPS_MAX)
		return err_set(err, RC_BAD, "the user is in more than %d groups", KEEPER_GROUPS_MAX);
	buf_add(&b, &head, sizeof head);
	buf_add(&b, spec->user.groups, spec->user.n_groups * sizeof(gid_t));
	head.argc = add_strings(&b, spec->argv);
	head.envc = add_strings(&b, spec->env);
	buf_add(&b, cwd, strlen(cwd) + 1);
	memcpy(b.data, &head, sizeof head);
	return memfile_make("run", b.data, b.len, fd_out, err);
}

/* The next `count` strings between *p and end, as a list ended by NULL; NULL if there are fewer. */
static const char **
take_strings(char **p, const char *end, uint32_t count)
{
	const char **list;

	if (count > (size_t)(end - *p)) /* each has at least its NUL */
		return NULL;
	list = xcalloc((size_t)count + 1, sizeof *list);
	for (uint32_t i = 0; i < count; i++) {
		char *stop = memchr(*p, '\0', (size_t)(end - *p));

		if (stop == NULL) {
			free(list);
			return NULL;
		}
		list[i] = *p;
		*p = stop + 1;
	}
	return list;
}

static bool
take_user(const struct head *head, char **p, const char *end, struct wire_spec *out)
{
	size_t bytes = head->n_groups * sizeof(gid_t);

	if (head->user_set > 1 || head->n_groups > KEEPER_GROUPS_MAX || bytes > (size_t)(end - *p))
		return false;
	out->groups = xcalloc(head->n_groups + 1, sizeof(gid_t));
	memcpy(out->groups, *p, bytes);
	*p += bytes;
	out->user = (struct keeper_user){.set = head->user_set,
	    .uid = head->uid,
	    .gid = head->gid,
	    .n_groups = head->n_groups,
	    .groups = out->groups};
	return true;
}

/* A private copy: the lists of strings point into it. */
static enum rc
map(int fd, struct wire_spec *w)
{
	struct stat st;
	void *text;

	if (fstat(fd, &st) != 0)
		return RC_AGAIN;
	if (st.st_size < (off_t)sizeof(struct head) || st.st_size > 2 * WIRE_SPEC_MAX)
		return RC_BAD;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return RC_AGAIN;
	w->text = text;
	w->len = (size_t)st.st_size;
	return RC_OK;
}

enum rc
wire_unpack(int fd, struct wire_spec *out)
{
	const char *end, **cwd;
	struct head head;
	enum rc rc;
	char *p;

	*out = (struct wire_spec){0};
	rc = map(fd, out);
	if (rc != RC_OK)
		return rc;
	memcpy(&head, out->text, sizeof head);
	p = out->text + sizeof head;
	end = out->text + out->len;
	if (!take_user(&head, &p, end, out))
		return RC_BAD;
	out->argv = take_strings(&p, end, head.argc);
	out->env = out->argv == NULL ? NULL : take_strings(&p, end, head.envc);
	cwd = out->env == NULL ? NULL : take_strings(&p, end, 1);
	if (cwd == NULL || head.argc == 0 || p != end) {
		free(cwd);
		return RC_BAD;
	}
	out->cwd = cwd[0];
	out->umask = head.umask;
	out->nice = head.nice;
	out->talks = head.talks != 0;
	out->limits = head.limits;
	free(cwd);
	return RC_OK;
}

void
wire_spec_fini(struct wire_spec *w)
{
	free(w->argv);
	free(w->env);
	free(w->groups);
	if (w->text != NULL)
		munmap(w->text, w->len);
	*w = (struct wire_spec){0};
}

enum rc
wire_send(int spawn_fd, const int fds[WIRE_FD__COUNT], size_t n_fds, struct err *err)
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
		n = sendmsg(spawn_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return err_set(
		    err, RC_AGAIN, "could not ask the keeper for a run: %s", strerrordesc_np(errno));
	return RC_OK;
}

/* The space for them is rounded up, so more may come than belong here: the extra ones are closed. */
static int
take_descriptors(const struct cmsghdr *c, int fds[WIRE_FD__COUNT])
{
	int n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));

	for (int i = 0; i < n; i++) {
		int fd;

		memcpy(&fd, CMSG_DATA(c) + (size_t)i * sizeof fd, sizeof fd);
		if (i < WIRE_FD__COUNT)
			fds[i] = fd;
		else
			close(fd);
	}
	return n < WIRE_FD__COUNT ? n : WIRE_FD__COUNT;
}

int
wire_receive(int fd, int fds[WIRE_FD__COUNT])
{
	union {
		struct cmsghdr align;
		char space[CMSG_SPACE(WIRE_FD__COUNT * sizeof(int))];
	} control;
	char word;
	struct iovec iov = {.iov_base = &word, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
	    .msg_iovlen = 1,
	    .msg_control = control.space,
	    .msg_controllen = sizeof control.space};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	struct cmsghdr *c;
	int came;

	if (n <= 0)
		return n == 0 || errno == ECONNRESET ? -2 : -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return 0;
	came = take_descriptors(c, fds);
	if ((msg.msg_flags & MSG_CTRUNC) == 0)
		return came;
	while (came > 1) /* without the others the run would be another one: without its input, say */
		close(fds[--came]);
	return came;
}
