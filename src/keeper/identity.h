/*
 * Turns the keeper's identity into that of the user the node's file names.
 */
#ifndef PGRAB_KEEPER_IDENTITY_H
#define PGRAB_KEEPER_IDENTITY_H

#include <stdbool.h>

#include "keeper/keeper.h"

/*
 * Call in the child of fork, single-threaded, with no_new_privs set.  Sets groups, gid and uid (when
 * user->set), drops every capability unless the uid is then 0, and checks that all of it took effect and
 * there is no way back.  Clears the signal that tells of the parent's death, as the kernel does with every
 * change of a uid.  False: errno says why; the process must not go on.
 */
CHECKED bool identity_take(const struct keeper_user *user);

#endif
