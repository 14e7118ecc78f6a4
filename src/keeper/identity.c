/*
 * By system calls: libc's wrappers are for programs with threads, and the child of vfork shares its
 * memory with the shim.
 */
#include "keeper/identity.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Also those that a service manager may have given the node to hand on (ambient ones survive an exec). */
static bool
drop_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 &&
	       syscall(SYS_capset, &head, none) == 0;
}

static bool
set_ids(const struct keeper_user *u)
{
	/* The uid last: without the old one nothing may be changed any more. */
	return syscall(SYS_setgroups, u->n_groups, u->groups) == 0 &&
	       syscall(SYS_setresgid, u->gid, u->gid, u->gid) == 0 &&
	       syscall(SYS_setresuid, u->uid, u->uid, u->uid) == 0;
}

/* Did all of it take effect?  The kernel said yes, but what follows is somebody
 * else's program, so we check. */
static bool
is_set(const struct keeper_user *u)
{
	uid_t uid[3];
	gid_t gid[3];

	if (getresuid(&uid[0], &uid[1], &uid[2]) != 0 || getresgid(&gid[0], &gid[1], &gid[2]) != 0 ||
	    getgroups(0, NULL) != (int)u->n_groups)
		return false;
	for (int i = 0; i < 3; i++) {
		if (uid[i] != u->uid || gid[i] != u->gid)
			return false;
	}
	return u->uid == 0 || syscall(SYS_setresuid, -1, 0, -1) != 0;
}

bool
identity_take(const struct keeper_user *u)
{
	if (u->set && !set_ids(u))
		return false;
	if (geteuid() != 0 && !drop_capabilities())
		return false;
	if (u->set && !is_set(u)) {
		errno = EPERM;
		return false;
	}
	return true;
}
