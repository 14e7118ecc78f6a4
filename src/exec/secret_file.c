#include "exec/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"
#include "core/secret.h"

static const char *
relative(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && path[n] == '/' ? path + n + 1 : path;
}

static int
open_below(const char *dir, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	    .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
	int at = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int fd = at < 0 ? -1 : (int)syscall(SYS_openat2, at, path, &how, sizeof how);

	close_fd(&at);
	return fd;
}

static enum rc
check(int fd, const char *name, struct err *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return err_set(err, RC_BAD, "the secret file %s is not a plain file", name);
	if (st.st_uid != 0 && st.st_uid != geteuid())
		return err_set(
		    err, RC_BAD, "the secret file %s belongs neither to root nor to this node's user", name);
	if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return err_set(err, RC_BAD, "others can write the secret file %s; run: chmod go-w", name);
	if (st.st_size > SECRET_MAX)
		return err_set(err, RC_BAD, "the secret file %s is larger than %d bytes", name, SECRET_MAX);
	return RC_OK;
}

static enum rc
take(int fd, const char *name, char **out, struct err *err)
{
	char *text = xmalloc(SECRET_MAX + 2);
	ssize_t n, len = 0;

	while ((n = read(fd, text + len, (size_t)(SECRET_MAX + 1 - len))) > 0)
		len += n;
	text[len] = '\0';
	if (len > 0 && text[len - 1] == '\n')
		text[--len] = '\0';
	if (n == 0 && len <= SECRET_MAX && strlen(text) == (size_t)len) {
		*out = text;
		return RC_OK;
	}
	explicit_bzero(text, SECRET_MAX + 2);
	free(text);
	return err_set(err, RC_BAD, "the secret file %s is not a text of at most %d bytes", name, SECRET_MAX);
}

enum rc
secret_file_read(const char *folder, const char *owner, const char *path, char **out, struct err *err)
{
	AUTO_FREE char *dir = NULL;
	enum rc rc;
	int fd;

	if (folder == NULL)
		return err_set(err, RC_BAD, "this node reads no secrets from files (secret_dir)");
	if (owner[0] == '.' || strchr(owner, '/') != NULL)
		return err_set(err, RC_BAD, "the owner %.63s cannot have a folder of secrets", owner);
	dir = xasprintf("%s/%s", folder, owner);
	fd = open_below(dir, relative(dir, path));
	if (fd < 0)
		rc = err_set(err, RC_BAD, "could not open the secret file %.200s in %.200s: %s", path, dir,
		    strerrordesc_np(errno));
	else
		rc = check(fd, path, err);
	if (rc == RC_OK)
		rc = take(fd, path, out, err);
	close_fd(&fd);
	return rc;
}
