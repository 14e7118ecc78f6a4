/* What a job starts with unless its task says otherwise: user, environment, folder, umask, nice.  Made before
 * any thread starts, and never changed. */
#pragma once

#include "base/rc.h"
#include "base/texts.h"
#include "keeper/keeper.h"

struct surroundings {
	struct texts env; /* "NAME=value" */
	char *cwd;
	int umask, nice;
	struct keeper_limits limits; /* what a task gets, and may not exceed */
	struct keeper_user user;
	gid_t *groups; /* of user; owned */
};

/* env: "NAME=value,..." on top of PATH, LANG, HOME, USER, LOGNAME and SHELL, of which the last four are
 * those of the user that the node runs as; NULL: nothing.  umask: octal digits.  RC_BAD: the text names the
 * setting.  surroundings_fini is needed even then. */
CHECKED enum rc surroundings_make(
    struct surroundings *s, const char *env, const char *cwd, const char *umask, int nice, struct err *err);

/* "user" or "user:group", by name or number: HOME, USER and LOGNAME become that user's.  NULL, or the node's
 * own user: nothing changes.  RC_BAD: there is no such user, or this process may not run anything as that
 * user; the text begins with `where`, the name of the setting, as it does below. */
CHECKED enum rc
surroundings_user(struct surroundings *s, const char *where, const char *run_as, struct err *err);

/* As env of surroundings_make. */
CHECKED enum rc surroundings_env(struct surroundings *s, const char *where, const char *env, struct err *err);

/* The folder to start in, and HOME.  NULL: nothing changes. */
CHECKED enum rc
surroundings_folder(struct surroundings *s, const char *where, const char *folder, struct err *err);

/* "memory=1GB,processes=200,cpu=2"; NULL: none. */
CHECKED enum rc
surroundings_limit(struct surroundings *s, const char *where, const char *limits, struct err *err);
void surroundings_fini(struct surroundings *s);

/* limits.c: what a job may use; args.limits and job_limits are written in the same way. */

/* One limit, "memory=512MB", "processes=50" or "cpu=0.5" (processors).  RC_BAD: the text says what
 * would be right, after `where`, the name of the argument or setting. */
CHECKED enum rc limits_read(struct keeper_limits *l, const char *where, const char *text, struct err *err);

/* A task's limits within the node's, which also apply to a task that names none.  RC_BAD: it wants more. */
CHECKED enum rc limits_within(const struct keeper_limits *node, const struct keeper_limits *task,
    struct keeper_limits *out, struct err *err);
