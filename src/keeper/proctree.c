/*
 * The tree is read afresh each time: it changes while we look, and nothing of it is worth keeping.
 *
 * A process that forks and exits all the time is gone before its number is read.  Two things catch it: a
 * signal to a whole process group, which no fork escapes (the kernel takes the fork back when a signal is
 * pending), and a look at the numbers that follow one that has just died.
 */
#include "keeper/proctree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fd.h"

#define STOP_PASSES 8 /* a run that forks faster than this is killed by the calls that follow */

#define CHASE_PIDS   64   /* numbers looked at after a dead one */
#define CHASE_ROUNDS 1000 /* of microseconds each */

struct proc {
	struct proc_view view;
	pid_t pid, group, session;
	unsigned long long start; /* clock ticks since boot: tells two processes with the same id apart */
	bool ours;
};

struct procs {
	struct proc *item;
	size_t count, cap;
	bool blind; /* something could not be read */
};

static bool
read_stat(pid_t pid, struct proc *out)
{
	char path[32], text[1024], *name, *rest;
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false; /* errno says whether it is gone */
	n = read(fd, text, sizeof text - 1);
	close_fd(&fd);
	errno = ESRCH;
	if (n <= 0)
		return false;
	text[n] = '\0';
	name = strchr(text, '(');
	rest = strrchr(text, ')'); /* the name before it may hold anything, even ") R 1" */
	if (name == NULL || rest == NULL)
		return false;
	*rest = '\0';
	*out = (struct proc){.pid = pid};
	snprintf(out->view.name, sizeof out->view.name, "%s", name + 1);
	return sscanf(rest + 1,
		   " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
		   &out->view.state, &out->view.parent, &out->group, &out->session, &out->start) == 5;
}

static int
by_pid(const void *a, const void *b)
{
	const struct proc *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static void
read_all(struct procs *all)
{
	DIR *dir = opendir("/proc");
	struct dirent *e;
	struct proc p;

	while (dir != NULL && (e = readdir(dir)) != NULL) {
		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		if (!read_stat((pid_t)strtol(e->d_name, NULL, 10), &p)) {
			all->blind = all->blind || (errno != ENOENT && errno != ESRCH);
			continue;
		}
		if (all->count == all->cap) {
			all->cap = all->cap == 0 ? 256 : 2 * all->cap;
			all->item = xrealloc(all->item, all->cap * sizeof *all->item);
		}
		all->item[all->count++] = p;
	}
	all->blind = all->blind || dir == NULL;
	if (dir != NULL)
		closedir(dir);
	if (all->count > 0)
		qsort(all->item, all->count, sizeof *all->item, by_pid);
}

static bool
is_ours(const struct procs *all, pid_t pid)
{
	const struct proc key = {.pid = pid};
	const struct proc *p = bsearch(&key, all->item, all->count, sizeof key, by_pid);

	return p != NULL && p->ours;
}

/* Children have higher ids than their parents, except after a wrap-around, so one pass nearly always does. */
static size_t
mark_descendants(struct procs *all, pid_t root, proctree_spare_fn spare, void *ctx)
{
	size_t marked = 0, before;

	do {
		before = marked;
		for (size_t i = 0; i < all->count; i++) {
			struct proc *p = &all->item[i];

			if (p->ours || p->pid == root)
				continue;
			if (p->view.parent == root ? spare == NULL || !spare(p->pid, ctx)
						   : is_ours(all, p->view.parent)) {
				p->ours = true;
				marked++;
			}
		}
	} while (marked > before);
	return marked;
}

/* Signals the group of a process of a run, never one of ours: a run is in sessions of its own. */
static void
signal_group(pid_t group, pid_t session, int sig)
{
	if (group > 1 && session > 1 && session != getsid(0))
		kill(-group, sig);
}

static void
signal_one(const struct proc *p, int sig)
{
	int fd = pidfd_open(p->pid, 0);
	struct proc now;

	if (fd < 0)
		return; /* gone */
	if (read_stat(p->pid, &now) && now.start == p->start)
		(void)pidfd_send_signal(fd, sig, NULL, 0);
	close(fd);
}

size_t
proctree_signal(pid_t root, int sig, proctree_spare_fn spare, void *ctx)
{
	struct procs all = {0};
	size_t n;

	read_all(&all);
	n = mark_descendants(&all, root, spare, ctx);
	for (size_t i = 0; n > 0 && i < all.count; i++) {
		if (!all.item[i].ours)
			continue;
		if (sig == SIGKILL || sig == SIGSTOP)
			signal_group(all.item[i].group, all.item[i].session, sig);
		signal_one(&all.item[i], sig);
	}
	free(all.item);
	return n == 0 && all.blind ? 1 : n; /* having seen none proves nothing if some could not be read */
}

void
proctree_kill_group(pid_t member)
{
	signal_group(getpgid(member), getsid(member), SIGKILL);
}

/* The last that was caught; 0: none.  No look at /proc here: it takes longer than such a process lives. */
static pid_t
chase_on(pid_t dead, proctree_spare_fn spare, void *ctx)
{
	pid_t last = 0;

	for (pid_t pid = dead + 1; pid <= dead + CHASE_PIDS; pid++) {
		/* A child, or a dead one: until it is reaped it keeps its number. */
		if (waitid(P_PID, (id_t)pid, NULL, WEXITED | WNOHANG | WNOWAIT) != 0 ||
		    (spare != NULL && spare(pid, ctx)))
			continue;
		kill(pid, SIGKILL);
		proctree_kill_group(pid);
		last = pid;
	}
	return last;
}

void
proctree_chase(pid_t dead, proctree_spare_fn spare, void *ctx)
{
	for (int round = 0; dead != 0 && round < CHASE_ROUNDS; round++)
		dead = chase_on(dead, spare, ctx);
}

size_t
proctree_kill(pid_t root, proctree_spare_fn spare, void *ctx)
{
	size_t before = 0, n;

	for (int pass = 0; pass < STOP_PASSES; pass++) {
		n = proctree_signal(root, SIGSTOP, spare, ctx);
		if (n <= before)
			break; /* none was added since the last look */
		before = n;
	}
	return proctree_signal(root, SIGKILL, spare, ctx);
}

bool
proctree_below(pid_t root, bool direct_only, struct proctree *out)
{
	struct procs all = {0};

	read_all(&all);
	mark_descendants(&all, root, NULL, NULL);
	*out = (struct proctree){.pid = xcalloc(all.count + 1, sizeof *out->pid)};
	for (size_t i = 0; i < all.count; i++) {
		if (all.item[i].ours && (!direct_only || all.item[i].view.parent == root))
			out->pid[out->count++] = all.item[i].pid;
	}
	free(all.item);
	return all.count > 0;
}

bool
proc_look(pid_t pid, struct proc_view *out)
{
	struct proc p;
	bool there = read_stat(pid, &p);

	if (there)
		*out = p.view;
	return there;
}
