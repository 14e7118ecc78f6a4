/* The child gets a session and a process group of its own, default signals,
 * nothing of our environment and no descriptor but 0 to 2, or those it was promised.  It is the user that the
 * node's file names, cannot gain privileges, and dies with its shim. */
#include "keeper/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FALLBACK_PATH "/usr/local/bin:/usr/bin:/bin"

static _Noreturn void
give_up(const struct launch *l, const char *where)
{
	l->failed->error = errno;
	snprintf(l->failed->where, sizeof l->failed->where, "%s", where);
	_exit(127);
}

static void
connect_stdio(const struct launch *l)
{
	int in = l->stdin_fd;

	if (in < 0)
		in = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (in < 0 || dup2(in, STDIN_FILENO) < 0)
		give_up(l, "stdin");
	if (dup2(l->output_fd, STDOUT_FILENO) < 0 || dup2(l->output_fd, STDERR_FILENO) < 0)
		give_up(l, "output");
	if (close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC) != 0)
		give_up(l, "close_range");
	/* Last, because it may replace any other descriptor. */
	if (l->script_fd == KEEPER_SCRIPT_FD ? fcntl(KEEPER_SCRIPT_FD, F_SETFD, 0) != 0
					     : l->script_fd >= 0 && dup2(l->script_fd, KEEPER_SCRIPT_FD) < 0)
		give_up(l, "script");
	if (l->spec->talks && dup2(KEEPER_SCRIPT_FD, KEEPER_ANSWER_FD) < 0)
		give_up(l, "script");
}

static const char *
find_path(const char *const *env)
{
	for (; *env != NULL; env++) {
		if (strncmp(*env, "PATH=", 5) == 0)
			return *env + 5;
	}
	return FALLBACK_PATH;
}

/* As execvp, but with the PATH of the child, never the working directory, and never a shell for a file that
 * is not a program.  Returns only when it failed, with errno. */
static void
exec_by_path(const char *const *argv, const char *const *env)
{
	const char *dir = find_path(env);
	int error = ENOENT;
	char file[PATH_MAX];
	size_t n;

	for (; *dir != '\0'; dir += n + (dir[n] == ':')) {
		n = strcspn(dir, ":");
		if (n == 0 || snprintf(file, sizeof file, "%.*s/%s", (int)n, dir, argv[0]) >= PATH_MAX)
			continue;
		execve(file, (char *const *)argv, (char *const *)env);
		if (errno == EACCES)
			error = EACCES; /* there may be a better one further on */
		else if (errno != ENOENT && errno != ENOTDIR)
			return;
	}
	errno = error;
}

/* Before anything of the run is executed.  Without a group memory is bounded by the address space. */
static void
limit(const struct launch *l)
{
	const struct rlimit memory = {(rlim_t)l->spec->limits.memory, (rlim_t)l->spec->limits.memory};

	if (!cgroup_enter(l->group))
		give_up(l, "cgroup");
	if (!(l->group->fd >= 0 && l->group->memory) && l->spec->limits.memory > 0 &&
	    setrlimit(RLIMIT_AS, &memory) != 0)
		give_up(l, "limits");
}

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

/* Groups, gid and uid, with no_new_privs set; drops every capability unless the uid is then 0, and checks
 * that there is no way back.  By system calls: libc's wrappers are for programs with threads, and the child
 * of vfork shares its memory with the shim.  False, with errno: the process must not go on. */
static bool
take_identity(const struct keeper_user *u)
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

void
launch(const struct launch *l)
{
	const char *const *argv = (const char *const *)l->spec->argv;
	const char *const *env = (const char *const *)l->spec->env;
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL); /* exec keeps it */
	if (setsid() < 0)
		give_up(l, "setsid");
	umask((mode_t)l->spec->umask);
	if (l->spec->nice != 0)
		(void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + l->spec->nice);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		give_up(l, "no_new_privs");
	(void)setrlimit(RLIMIT_NOFILE, &l->nofile);
	limit(l);
	connect_stdio(l);
	if (!take_identity(&l->spec->user))
		give_up(l, "user");
	/* Not earlier: the kernel forgets it when the uid changes. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
		give_up(l, "prctl");
	if (getppid() != l->shim)
		_exit(126); /* the shim died before the line above */
	if (chdir(l->spec->cwd) != 0)
		give_up(l, "chdir");
	if (strchr(argv[0], '/') != NULL)
		execve(argv[0], (char *const *)argv, (char *const *)env);
	else if (argv[0][0] != '\0')
		exec_by_path(argv, env);
	else
		errno = ENOENT;
	give_up(l, "exec");
}
