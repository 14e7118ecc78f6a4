/*
 * A small HTTP server in a thread of the test, that can also be a bad one: it hangs, trickles, floods, hangs
 * up. One connection at a time, one request per connection.  Nothing here waits without a deadline.
 */
#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define TINY_WAIT_MS 5000

struct tiny;
typedef void (*tiny_answer_fn)(struct tiny *s, int fd, const char *path);

struct tiny_route {
	const char *path;
	tiny_answer_fn answer;
};

struct tiny {
	const struct tiny_route *routes; /* ended by a NULL path, whose answer is for everything else */
	void *ctx;                       /* for the answers */
	int listen_fd, quit_fd, port;
	pthread_t thread;
	pthread_mutex_t lock;
	/* under the lock */
	unsigned requests;
	char last[16384]; /* the last request, whole */
};

/* false: the client is gone. */
static inline bool
tiny_send(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t k = send(fd, at, n, MSG_NOSIGNAL);

		if (k <= 0)
			return false;
		at += k;
		n -= (size_t)k;
	}
	return true;
}

static inline bool
tiny_say(int fd, const char *text)
{
	return tiny_send(fd, text, strlen(text));
}

/* Until the client hangs up, at most `ms`; true: it did. */
static inline bool
tiny_gone(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
	char c;

	return poll(&p, 1, ms) > 0 && recv(fd, &c, 1, MSG_PEEK) <= 0;
}

static inline bool
tiny_complete(const char *request, size_t len)
{
	const char *end = strstr(request, "\r\n\r\n");
	const char *length = strcasestr(request, "\r\nContent-Length:");

	if (request[0] == 0x16)
		return true; /* a TLS client: will get plain text back */
	if (end == NULL)
		return false;
	return len >= (size_t)(end + 4 - request) +
			  (length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0);
}

static inline bool
tiny_read(int fd, char *request, size_t size)
{
	size_t len = 0;

	request[0] = '\0';
	while (!tiny_complete(request, len)) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t k;

		if (len + 1 >= size || poll(&p, 1, TINY_WAIT_MS) <= 0)
			return false;
		k = recv(fd, request + len, size - len - 1, 0);
		if (k <= 0)
			return false;
		len += (size_t)k;
		request[len] = '\0';
	}
	return true;
}

static inline void
tiny_serve(struct tiny *s, int fd)
{
	static char request[sizeof(s->last)]; /* one server thread */
	char path[256] = "";
	const struct tiny_route *r = s->routes;

	if (!tiny_read(fd, request, sizeof(request)))
		return;
	pthread_mutex_lock(&s->lock);
	memcpy(s->last, request, sizeof(request));
	s->requests++;
	pthread_mutex_unlock(&s->lock);
	sscanf(request, "%*s %255s", path);
	while (r->path != NULL && strcmp(r->path, path) != 0)
		r++;
	r->answer(s, fd, path);
}

static inline void *
tiny_main(void *arg)
{
	struct tiny *s = arg;

	for (;;) {
		struct pollfd p[2] = {
		    {.fd = s->listen_fd, .events = POLLIN}, {.fd = s->quit_fd, .events = POLLIN}};
		int fd;

		if (poll(p, 2, -1) < 0 || p[1].revents != 0)
			return NULL;
		fd = accept(s->listen_fd, NULL, NULL);
		if (fd < 0)
			continue;
		tiny_serve(s, fd);
		shutdown(fd, SHUT_WR);
		close(fd);
	}
}

static inline void
tiny_start(struct tiny *s, const struct tiny_route *routes)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	s->routes = routes;
	s->quit_fd = eventfd(0, EFD_CLOEXEC);
	s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->quit_fd < 0 || s->listen_fd < 0 || bind(s->listen_fd, (struct sockaddr *)&a, len) != 0 ||
	    listen(s->listen_fd, 8) != 0 || getsockname(s->listen_fd, (struct sockaddr *)&a, &len) != 0)
		abort();
	s->port = ntohs(a.sin_port);
	pthread_mutex_init(&s->lock, NULL);
	if (pthread_create(&s->thread, NULL, tiny_main, s) != 0)
		abort();
}

static inline void
tiny_stop(struct tiny *s)
{
	if (eventfd_write(s->quit_fd, 1) != 0)
		abort();
	pthread_join(s->thread, NULL);
	pthread_mutex_destroy(&s->lock);
	close(s->listen_fd);
	close(s->quit_fd);
}
