/*
 * What a job finds around it when its task says nothing else: environment, folder, umask, nice.  One per node,
 * made before any thread and not changed.
 */
#ifndef PGRAB_EXEC_SURROUNDINGS_H
#define PGRAB_EXEC_SURROUNDINGS_H

#include <stddef.h>

#include "base/rc.h"
#include "keeper/keeper.h"

struct surroundings {
	char **env; /* "NAME=value", ended by NULL; owned */
	char *cwd;
	int umask, nice;
	struct keeper_limits limits; /* what a task gets, and may not go beyond */
};

/*
 * env: "NAME=value,..." on top of PATH, LANG, HOME, USER, LOGNAME and SHELL, of which the last four are those of
 * the user that the node runs as; NULL: nothing.  umask: octal digits.  RC_BAD: the text names the setting.
 * surroundings_fini also after that.
 */
CHECKED enum rc surroundings_make(
    struct surroundings *s, const char *env, const char *cwd, const char *umask, int nice, struct err *err);

/* "memory=1GB,processes=200,cpu=2"; NULL: none.  RC_BAD: the text names the setting. */
CHECKED enum rc surroundings_limit(struct surroundings *s, const char *limits, struct err *err);
void surroundings_fini(struct surroundings *s);

#endif
