#include "base/fd.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

void
close_fd(int *fd)
{
	int error = errno;

	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	errno = error;
}

static bool
write_all(int fd, const char *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(fd, data + done, len - done, (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		done += (size_t)n;
	}
	return true;
}

enum rc
memfile_make(const char *what, const void *data, size_t len, int *fd_out, struct err *err)
{
	int fd = memfd_create(what, MFD_CLOEXEC);

	*fd_out = fd;
	if (fd >= 0 && write_all(fd, data, len))
		return RC_OK;
	(void)err_set(err, RC_AGAIN, "could not write the %s: %s", what, strerrordesc_np(errno));
	close_fd(fd_out);
	return RC_AGAIN;
}
