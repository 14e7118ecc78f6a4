/*
 * What an HTTP server may answer: a whole run of kind http, with the real libcurl, against a socket
 * of this process.  One thread: the server's part is done whenever the run asks its host whether it
 * has to stop.
 */
#include <arpa/inet.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/bounds.h"
#include "exec/exec.h"
#include "exec/http_transfer.h"
#include "fuzz.h"

static struct {
	int listen_fd, fd; /* fd: the connection; -1: none yet */
	uint16_t port;
	const uint8_t *answer;
	size_t size, printed;
} server;

static struct http *client;
static struct pgrab_result result;
static bool ended;

/* Never closed before the run is over: what is still to be read would go with it. */
static void
serve(void)
{
	char request[4096];

	if (server.fd < 0) {
		server.fd = accept4(server.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (server.fd < 0)
			return;
		for (size_t at = 0; at < server.size;) {
			ssize_t n = send(
			    server.fd, server.answer + at, server.size - at, MSG_NOSIGNAL | MSG_DONTWAIT);

			if (n <= 0)
				break;
			at += (size_t)n;
		}
		shutdown(server.fd, SHUT_WR);
	}
	while (recv(server.fd, request, sizeof request, MSG_DONTWAIT) > 0)
		;
}

static enum pgrab_stop
host_stop(void *ctx)
{
	serve();
	return PGRAB_STOP_NONE;
}

static void
note_end(void *ctx, const struct pgrab_result *r)
{
	result = *r;
	ended = true;
}

static void
host_output(void *ctx, const void *bytes, size_t n)
{
	server.printed += n;
}

static void
host_text(void *ctx, const char *text)
{
}

static void
host_progress(void *ctx, double percent, const char *text)
{
}

int
LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	static struct bounds no_bounds;
	static const struct bounds_list all = {1, &no_bounds};
	static const struct exec_env env = {.bounds = &all};
	char err[200] = "";

	clearenv(); /* proxies */
	server.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	MUST(server.listen_fd >= 0 && bind(server.listen_fd, (struct sockaddr *)&a, len) == 0 &&
	     listen(server.listen_fd, 8) == 0 &&
	     getsockname(server.listen_fd, (struct sockaddr *)&a, &len) == 0);
	server.port = ntohs(a.sin_port);
	client = http_open(&env, err, sizeof err);
	MUST(client != NULL);
	return 0;
}

/* The first byte says which request it is.  No redirect is followed: that would ask DNS. */
int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const methods[] = {"GET", "HEAD", "POST", "DELETE"};
	int which = size == 0 ? 0 : data[0];
	const struct pgrab_arg args[] = {
	    {"method", methods[which % 4]}, {"expect", which & 4 ? "2xx" : "404"}};
	struct pgrab_host host = {.size = sizeof host,
	    .stop_fd = eventfd(0, EFD_CLOEXEC),
	    .stop = host_stop,
	    .output = host_output,
	    .log = host_text,
	    .progress = host_progress,
	    .waits_for = host_text};
	struct pgrab_run run = {
	    .size = sizeof run, .name = "", .kind = "http", .fire_at = "", .fence = "1-1"};
	char url[64];

	snprintf(url, sizeof url, "http://127.0.0.1:%d/", server.port);
	run.command = url;
	run.args = args;
	run.n_args = 2;
	server.fd = -1;
	server.answer = size == 0 ? data : data + 1;
	server.size = size == 0 ? 0 : size - 1;
	server.printed = 0;
	ended = false;
	http_begin(client, &run, &host, note_end);
	while (!ended) {
		http_drive(client, host.stop_fd, 0);
		http_look_at_stops(client); /* serves */
	}
	MUST(result.succeeded == (result.error[0] == '\0'));
	MUST(strnlen(result.error, sizeof result.error) < sizeof result.error);
	MUST(fuzz_printable(result.error, strlen(result.error)));
	MUST(server.printed <= HTTP_BODY_MAX && result.retry_after_us >= 0);
	MUST(!result.has_exit_code || result.exit_code >= 200);
	if (server.fd >= 0)
		close(server.fd);
	close(host.stop_fd);
	return 0;
}
