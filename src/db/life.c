#include "db/life.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* The process that listens at the other end of a local socket. */
static pid_t
listener_of(PGconn *conn)
{
	struct ucred who;
	struct sockaddr_storage own;
	socklen_t size = sizeof who, n = sizeof own;
	int fd = PQsocket(conn);

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&own, &n) != 0 || own.ss_family != AF_UNIX ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
		return 0;
	return who.pid;
}

void
life_look(PGconn *conn, struct life_target *tried)
{
	const char *at = PQhostaddr(conn);
	pid_t listener = listener_of(conn);

	if (at == NULL || at[0] == '\0')
		at = PQhost(conn);
	snprintf(tried->at, sizeof tried->at, "%s", at == NULL ? "" : at);
	snprintf(tried->port, sizeof tried->port, "%s", PQport(conn) == NULL ? "" : PQport(conn));
	tried->listener =
	    listener != 0 ? listener : tried->listener; /* once closed, the socket does not tell */
}

/* libpq tells of each address that it has tried, the last one at the end. */
void
life_note(PGconn *conn, struct life_target *tried, struct life_target *target)
{
	static const char begin[] = "connection to server ";
	const char *last = PQerrorMessage(conn), *next;

	life_look(conn, tried);
	if (tried->at[0] == '\0' || strcmp(tried->at, target->at) != 0 ||
	    strcmp(tried->port, target->port) != 0)
		return;
	while (last[0] != '\0' && (next = strstr(last + 1, begin)) != NULL)
		last = next;
	target->not_now = strstr(last, "57P03") != NULL;
	target->refused = strstr(last, strerror(ECONNREFUSED)) != NULL ||
			  (tried->at[0] == '/' && strstr(last, strerror(ENOENT)) != NULL);
	target->listener = tried->listener;
}

void
life_forget(struct life *l)
{
	if (l->pidfd >= 0)
		close(l->pidfd);
	l->pidfd = -1;
	l->over = false;
	memset(&l->target, 0, sizeof l->target);
}

/* 0: there is no such process, as far as we can see. */
static pid_t
parent_of(pid_t pid)
{
	char path[64], line[512];
	const char *name_ends;
	int parent = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if ((f = fopen(path, "re")) == NULL)
		return 0;
	if (fgets(line, sizeof line, f) == NULL || (name_ends = strrchr(line, ')')) == NULL ||
	    sscanf(name_ends + 1, " %*c %d", &parent) != 1)
		parent = 0;
	fclose(f);
	return parent;
}

/* The parent is looked at after the pidfd was made: a number that was reused meanwhile is not it. */
static int
watch_listener(pid_t listener, pid_t backend)
{
	int fd = listener > 0 ? pidfd_open(listener, 0) : -1;

	if (fd >= 0 && parent_of(backend) != listener) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void
life_begin(struct life *l, PGconn *conn, bool pooled)
{
	if (!l->watched)
		return;
	life_forget(l);
	l->pooled = pooled;
	life_look(conn, &l->target);
	l->pidfd = watch_listener(l->target.listener, PQbackendPID(conn));
}

void
life_refused(struct life *l, const struct life_target *outcome)
{
	bool same = l->pidfd >= 0 && outcome->listener == l->target.listener;

	if (life_can_tell(l) && ((outcome->not_now && (same || l->word)) || (outcome->refused && l->word)))
		l->over = true;
}

bool
life_can_tell(const struct life *l)
{
	return l->watched && !l->pooled && (l->pidfd >= 0 || (l->word && l->target.at[0] != '\0'));
}

bool
life_is_over(const struct life *l)
{
	struct pollfd exited = {.fd = l->pidfd, .events = POLLIN};

	return life_can_tell(l) && (l->over || (l->pidfd >= 0 && poll(&exited, 1, 0) == 1));
}
