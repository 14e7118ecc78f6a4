/* Secrets in files: FOLDER/OWNER/PATH, where FOLDER is what the node's file names (secret_dir), OWNER the
 * role that the task belongs to, and PATH what the row says. */
#pragma once

#include "base/rc.h"

/* The contents without the newline at their end; the caller wipes and frees.  PATH may be relative, or begin
 * with FOLDER/OWNER/.  No symbolic link is followed and nothing leaves the owner's folder.  RC_BAD: there is
 * no folder; there is no such file; it is not a plain file, owned by root or this user, that others cannot
 * write; or it is not a text of at most SECRET_MAX bytes. */
CHECKED enum rc
secret_file_read(const char *folder, const char *owner, const char *path, char **out, struct err *err);
