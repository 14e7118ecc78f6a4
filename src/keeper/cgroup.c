/* Nothing here is an error of the run: the keeper does without whatever does not work. */
#include "keeper/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

#define PATH_BYTES 4096
#define NODE_GROUP "pgrab.node" /* where node and keeper move so that their group can pass controllers on */

static bool
put(int dir, const char *file, const char *text)
{
	int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close_fd(&fd);
	return done;
}

static bool
put_number(int dir, const char *file, int64_t n)
{
	char text[32];

	snprintf(text, sizeof text, "%" PRId64, n);
	return put(dir, file, text);
}

/* The first bytes; "" when it cannot be read. */
static void
get(int dir, const char *file, char *text, size_t size)
{
	int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = '\0';
	close_fd(&fd);
}

static bool
has_word(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; (p = strstr(p, word)) != NULL; p += n) {
		if ((p == text || p[-1] == ' ') && strchr(" \n", p[n]) != NULL)
			return true;
	}
	return false;
}

/* Where the unified hierarchy is mounted: the fifth field of the first such line of mountinfo. */
static bool
find_mount(char *out, size_t size)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char line[PATH_BYTES];
	bool found = false;

	while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
		found =
		    strstr(line, " - cgroup2 ") != NULL && sscanf(line, "%*s %*s %*s %*s %2000s", out) == 1;
	}
	if (f != NULL)
		fclose(f);
	return found && strlen(out) < size;
}

static int
open_own(void)
{
	char mount[2048], text[PATH_BYTES], path[2 * PATH_BYTES], *own;

	get(AT_FDCWD, "/proc/self/cgroup", text, sizeof text);
	own = strstr(text, "0::/");
	if (own == NULL || !find_mount(mount, sizeof mount))
		return -1;
	own += 3;
	own[strcspn(own, "\n")] = '\0';
	/* A keeper before us may have moved the node. */
	if (strlen(own) > strlen(NODE_GROUP) &&
	    strcmp(own + strlen(own) - strlen(NODE_GROUP), NODE_GROUP) == 0)
		own[strlen(own) - strlen(NODE_GROUP)] = '\0';
	snprintf(path, sizeof path, "%s%s", mount, own);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A group that passes controllers on must have no processes of its own (except the root): node and keeper
 * move into one below it. */
static void
pass_on_controllers(struct cgroup_base *b)
{
	char have[256];
	int sub;

	if (!put(b->fd, "cgroup.subtree_control", "+memory +pids +cpu") && errno == EBUSY) {
		(void)mkdirat(b->fd, NODE_GROUP, 0755);
		sub = openat(b->fd, NODE_GROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (sub >= 0 && put_number(sub, "cgroup.procs", b->node) && put(sub, "cgroup.procs", "0"))
			(void)put(b->fd, "cgroup.subtree_control", "+memory +pids +cpu");
		close_fd(&sub);
	}
	get(b->fd, "cgroup.subtree_control", have, sizeof have);
	b->memory = has_word(have, "memory");
	b->pids = has_word(have, "pids");
	b->cpu = has_word(have, "cpu");
}

static void
group_name(const struct cgroup_base *b, pid_t shim, char *out, size_t size)
{
	snprintf(out, size, "pgrab.%d.%d", (int)b->node, (int)shim);
}

static void
remove_old(struct cgroup_base *b)
{
	DIR *dir = fdopendir(openat(b->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;
	int node, shim;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (sscanf(e->d_name, "pgrab.%d.%d", &node, &shim) != 2 || node <= 0)
			continue;
		if (node != b->node) {
			if (kill(node, 0) != 0 && errno == ESRCH)
				(void)unlinkat(b->fd, e->d_name, AT_REMOVEDIR);
			continue;
		}
		cgroup_kill_of(b, shim);
		b->old = xrealloc(b->old, (b->n_old + 1) * sizeof *b->old);
		b->old[b->n_old++] = shim;
	}
	if (dir != NULL)
		closedir(dir);
}

void
cgroup_base_sweep(struct cgroup_base *b)
{
	char name[48];
	size_t kept = 0;

	for (size_t i = 0; i < b->n_old; i++) {
		group_name(b, b->old[i], name, sizeof name);
		if (unlinkat(b->fd, name, AT_REMOVEDIR) != 0 && errno == EBUSY)
			b->old[kept++] = b->old[i];
	}
	b->n_old = kept;
}

void
cgroup_base_open(struct cgroup_base *b, pid_t node)
{
	struct cgroup trial = {.fd = -1, .base_fd = -1};
	const struct keeper_limits none = {0};
	bool useful;

	*b = (struct cgroup_base){.fd = open_own(), .node = node};
	if (b->fd < 0)
		return;
	remove_old(b);
	/* Without cgroup.kill (before Linux 5.14) it is of little use. */
	useful =
	    cgroup_make(b, 0, &none, &trial) && faccessat(trial.fd, "cgroup.kill", W_OK, AT_EACCESS) == 0;
	cgroup_remove(&trial);
	if (useful)
		pass_on_controllers(b);
	else
		close_fd(&b->fd);
}

static bool
set_limits(const struct cgroup_base *b, int fd, const struct keeper_limits *l)
{
	char cpu[64];

	snprintf(cpu, sizeof cpu, "%" PRId64 " 100000", l->cpu_percent * 1000);
	errno = ENOTSUP; /* for what b says is impossible */
	if (l->memory > 0 && b->memory &&
	    (!put_number(fd, "memory.max", l->memory) || !put(fd, "memory.oom.group", "1")))
		return false;
	if (l->processes > 0 && (!b->pids || !put_number(fd, "pids.max", l->processes)))
		return false;
	return l->cpu_percent == 0 || (b->cpu && put(fd, "cpu.max", cpu));
}

bool
cgroup_make(const struct cgroup_base *b, pid_t shim, const struct keeper_limits *limits, struct cgroup *out)
{
	int error;

	*out = (struct cgroup){.fd = -1, .base_fd = b->fd, .memory = b->memory};
	group_name(b, shim, out->name, sizeof out->name);
	errno = ENOTSUP;
	if (b->fd >= 0)
		(void)unlinkat(b->fd, out->name, AT_REMOVEDIR); /* an earlier one would keep its limits */
	if (b->fd < 0 || (mkdirat(b->fd, out->name, 0755) != 0 && errno != EEXIST))
		return false;
	out->fd = openat(b->fd, out->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (out->fd >= 0 && set_limits(b, out->fd, limits))
		return true;
	error = errno;
	cgroup_remove(out);
	errno = error;
	return false;
}

bool
cgroup_enter(const struct cgroup *c)
{
	return c->fd < 0 || put(c->fd, "cgroup.procs", "0");
}

void
cgroup_kill(const struct cgroup *c)
{
	if (c->fd >= 0)
		(void)put(c->fd, "cgroup.kill", "1");
}

int
cgroup_memory_kills(const struct cgroup *c)
{
	char text[512] = "";
	const char *line;

	if (c->fd >= 0)
		get(c->fd, "memory.events", text, sizeof text);
	line = strstr(text, "oom_kill ");
	return line == NULL ? 0 : (int)strtol(line + strlen("oom_kill "), NULL, 10);
}

int64_t
cgroup_memory_peak(const struct cgroup *c, int64_t otherwise)
{
	char text[32] = "";

	if (c->fd >= 0)
		get(c->fd, "memory.peak", text, sizeof text);
	return text[0] == '\0' ? otherwise : (int64_t)strtoll(text, NULL, 10);
}

bool
cgroup_remove(struct cgroup *c)
{
	close_fd(&c->fd);
	return c->base_fd < 0 || unlinkat(c->base_fd, c->name, AT_REMOVEDIR) == 0 || errno == ENOENT;
}

void
cgroup_kill_of(const struct cgroup_base *b, pid_t shim)
{
	struct cgroup c = {.base_fd = b->fd};

	if (b->fd < 0)
		return;
	group_name(b, shim, c.name, sizeof c.name);
	c.fd = openat(b->fd, c.name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cgroup_kill(&c);
	cgroup_remove(&c);
}
