#include "keeper/proctree.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct entry {
	pid_t pid, parent;
	bool wanted;
};

/* Parent and state of a process; false when it is gone or a zombie. */
static bool
read_stat(const char *name, pid_t *parent_out)
{
	char path[64], text[512], state;
	int fd, parent;
	ssize_t n;

	snprintf(path, sizeof path, "/proc/%.20s/stat", name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof text - 1);
	close(fd);
	if (n <= 0)
		return false;
	text[n] = '\0';
	/* The name is in parentheses and may hold any; the last one ends it. */
	const char *end = strrchr(text, ')');

	if (end == NULL || sscanf(end + 1, " %c %d", &state, &parent) != 2)
		return false;
	*parent_out = parent;
	return state != 'Z' && state != 'X';
}

static struct entry *
read_all(size_t *n_out)
{
	DIR *d = opendir("/proc");
	struct entry *all = NULL;
	size_t n = 0, cap = 0;
	struct dirent *e;

	*n_out = 0;
	if (d == NULL)
		return NULL;
	while ((e = readdir(d)) != NULL) {
		pid_t parent;

		if (!isdigit((unsigned char)e->d_name[0]) || !read_stat(e->d_name, &parent))
			continue;
		if (n == cap) {
			struct entry *more = realloc(all, (cap = cap == 0 ? 256 : cap * 2) * sizeof *all);

			if (more == NULL)
				break; /* those found so far; the next look finds more */
			all = more;
		}
		all[n++] = (struct entry){.pid = (pid_t)strtol(e->d_name, NULL, 10), .parent = parent};
	}
	closedir(d);
	*n_out = n;
	return all;
}

static bool
is_in(pid_t pid, const pid_t *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (list[i] == pid)
			return true;
	}
	return false;
}

/* Marks what is below root, not going below spare.  Rounds until nothing changes: the list is in no order. */
static void
mark(struct entry *all, size_t n, pid_t root, bool direct_only, const pid_t *spare, size_t n_spare)
{
	bool changed = true;

	while (changed) {
		changed = false;
		for (size_t i = 0; i < n; i++) {
			bool below = all[i].parent == root;

			if (all[i].wanted || is_in(all[i].pid, spare, n_spare))
				continue;
			for (size_t k = 0; k < n && !below && !direct_only; k++)
				below = all[k].wanted && all[k].pid == all[i].parent;
			all[i].wanted = below;
			changed = changed || below;
		}
	}
}

bool
proctree_below(pid_t root, bool direct_only, struct proctree *out)
{
	size_t n;
	struct entry *all = read_all(&n);

	out->pid = NULL;
	out->count = 0;
	if (all == NULL)
		return false;
	mark(all, n, root, direct_only, NULL, 0);
	out->pid = calloc(n + 1, sizeof *out->pid);
	for (size_t i = 0; i < n && out->pid != NULL; i++) {
		if (all[i].wanted)
			out->pid[out->count++] = all[i].pid;
	}
	free(all);
	return out->pid != NULL;
}

int
proctree_signal(pid_t root, int sig, const pid_t *spare, size_t n_spare)
{
	size_t n;
	struct entry *all = read_all(&n);
	int count = 0;

	if (all == NULL)
		return -1;
	mark(all, n, root, false, spare, n_spare);
	for (size_t i = 0; i < n; i++) {
		if (all[i].wanted && all[i].pid > 1) {
			kill(all[i].pid, sig);
			count++;
		}
	}
	free(all);
	return count;
}
