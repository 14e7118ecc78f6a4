#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <event2/listener.h>

#include "base/log.h"

#define FLAGS (LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC | LEV_OPT_REUSEABLE)

static socklen_t
fill(const struct serve_address *a, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
	struct sockaddr_un *un = (struct sockaddr_un *)out;

	memset(out, 0, sizeof *out);
	if (a->port == 0) {
		un->sun_family = AF_UNIX;
		snprintf(un->sun_path, sizeof un->sun_path, "%.107s", a->text);
		return sizeof *un;
	}
	if (inet_pton(AF_INET, a->text, &v4->sin_addr) == 1) {
		v4->sin_family = AF_INET;
		v4->sin_port = htons((uint16_t)a->port);
		return sizeof *v4;
	}
	(void)inet_pton(AF_INET6, a->text, &v6->sin6_addr);
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons((uint16_t)a->port);
	return sizeof *v6;
}

/* Removes the socket of one that was killed: nobody answers there. */
static void
remove_left_over(const struct sockaddr_storage *name, socklen_t len)
{
	const char *path = ((const struct sockaddr_un *)name)->sun_path;
	struct stat st;
	int fd;

	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (connect(fd, (const struct sockaddr *)name, len) != 0 && errno == ECONNREFUSED)
		(void)unlink(path);
	close(fd);
}

static enum rc
listen_at(
    struct event_base *base, const struct serve_address *a, struct evconnlistener **out, struct err *err)
{
	struct sockaddr_storage name;
	socklen_t len = fill(a, &name);
	int on = 1;

	if (a->port == 0)
		remove_left_over(&name, len);
	*out = evconnlistener_new_bind(base, NULL, NULL, FLAGS, 128, (struct sockaddr *)&name, (int)len);
	if (*out != NULL) {
		/* Accepted connections inherit it; without it the last bytes of an answer
		 * wait for the client's ACK. */
		if (a->port != 0)
			(void)setsockopt(
			    evconnlistener_get_fd(*out), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		return RC_OK;
	}
	if (a->port == 0)
		return err_set(err, RC_BAD, "could not listen at unix:%s: %s", a->text, strerror(errno));
	return err_set(err, RC_BAD, "could not listen at %s port %d: %s", a->text, a->port, strerror(errno));
}

void
listen_unlink(const struct serve_settings *set)
{
	const char *at = serve_addresses(set);
	struct serve_address a;
	struct err err;

	while (serve_next_address(&at, &a, &err)) {
		if (a.port == 0)
			(void)unlink(a.text);
	}
}

enum rc
listen_all(struct event_base *base, const struct serve_settings *set, struct evhttp *server,
    struct clients *clients, struct err *err)
{
	const char *at = serve_addresses(set);
	struct serve_address a;
	enum rc rc = RC_OK;

	while (rc == RC_OK && serve_next_address(&at, &a, err)) {
		struct evconnlistener *l = NULL;

		rc = listen_at(base, &a, &l, err);
		if (rc != RC_OK)
			break;
		if (evhttp_bind_listener(server, l) == NULL)
			abort();
		clients_watch(clients, l);
		log_info("listen", "address=%s%s port=%d", a.port == 0 ? "unix:" : "", a.text, a.port);
	}
	return rc;
}
