/*
 * What the server of test_http.c answers, by path.  Its ctx is the struct fake_host of the test that runs.
 */
#pragma once

#include "base/alloc.h"
#include "fake_host.h"
#include "tiny_http.h"

static void
answer_ok(struct tiny *s, int fd, const char *path)
{
	(void)tiny_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
}

static void
answer_status(struct tiny *s, int fd, const char *path)
{
	char text[200];

	snprintf(text, sizeof(text), "HTTP/1.1 %.3s Whatever\r\nContent-Length: 4\r\n\r\nbody",
	    path + strlen("/status/"));
	(void)tiny_say(fd, text);
}

static void
answer_hang(struct tiny *s, int fd, const char *path)
{
	fake_host_stop(s->ctx, PGRAB_STOP_TIMEOUT);
	(void)tiny_gone(fd, TINY_WAIT_MS);
}

static void
answer_trickle(struct tiny *s, int fd, const char *path)
{
	bool more = tiny_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");

	for (int i = 0; more && i < 1000; i++) {
		more = tiny_say(fd, "x") && !tiny_gone(fd, 5);
		if (i == 5)
			fake_host_stop(s->ctx, PGRAB_STOP_CANCEL);
	}
}

static void
answer_huge(struct tiny *s, int fd, const char *path)
{
	static const char block[65536];

	if (!tiny_say(fd, "HTTP/1.1 200 OK\r\n\r\n"))
		return;
	for (int i = 0; i < 16384 && tiny_send(fd, block, sizeof(block)); i++) /* 1 GiB at most */
		;
}

/* Deflate by hand: a zero, then over and over "258 more of it", 13 bits for 258 bytes.  114 KB make 18 MB. */
static void
answer_bomb(struct tiny *s, int fd, const char *path)
{
	enum { MATCHES = 70000 };
	size_t bits = 16, size = (MATCHES * 13 + 100) / 8;
	unsigned char *z = xcalloc(1, size);

	memcpy(z, "\x78\x9c", 2);
	for (const char *c = "110" /* last block, fixed codes */ "00110000" /* literal 0 */; *c != '\0';
	     c++, bits++)
		z[bits / 8] |= (unsigned char)((*c - '0') << (bits % 8));
	for (int i = 0; i < MATCHES; i++) {
		for (const char *c = "1100010100000" /* length 258, distance 1 */; *c != '\0'; c++, bits++)
			z[bits / 8] |= (unsigned char)((*c - '0') << (bits % 8));
	}
	if (tiny_say(fd, "HTTP/1.1 200 OK\r\nContent-Encoding: deflate\r\n\r\n"))
		(void)tiny_send(fd, z, size);
	free(z);
}

static void
answer_nothing(struct tiny *s, int fd, const char *path)
{
}

static void
answer_partly(struct tiny *s, int fd, const char *path)
{
	(void)tiny_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
}

static void
answer_headers(struct tiny *s, int fd, const char *path)
{
	bool more = tiny_say(fd, "HTTP/1.1 200 OK\r\n");

	for (int i = 0; more && i < 1000 * 1000; i++)
		more = tiny_say(
		    fd, "X-More: and more and more and more and more and more and more and more\r\n");
}

static void
answer_interim(struct tiny *s, int fd, const char *path)
{
	for (int i = 0; i < 1000 * 1000 && tiny_say(fd, "HTTP/1.1 103 Early Hints\r\n\r\n"); i++)
		;
}

static void
answer_garbage(struct tiny *s, int fd, const char *path)
{
	(void)tiny_say(fd, "I am \033[31mnot\n a web server\r\n\r\n");
}

static void
redirect(int fd, int status, const char *to)
{
	char text[300];

	snprintf(text, sizeof(text), "HTTP/1.1 %d Go\r\nLocation: %s\r\nContent-Length: 5\r\n\r\nmoved",
	    status, to);
	(void)tiny_say(fd, text);
}

static void
answer_redirect(struct tiny *s, int fd, const char *path)
{
	redirect(fd, atoi(path + strlen("/to-ok/")), "/ok");
}

static void
answer_loop(struct tiny *s, int fd, const char *path)
{
	redirect(fd, 302, path);
}

static void
answer_elsewhere(struct tiny *s, int fd, const char *path)
{
	char to[100];

	snprintf(to, sizeof(to), "http://localhost:%d/ok", s->port);
	redirect(fd, 307, to);
}

static void
answer_ftp(struct tiny *s, int fd, const char *path)
{
	redirect(fd, 302, "ftp://127.0.0.1/etc/passwd");
}

static void
answer_metadata(struct tiny *s, int fd, const char *path)
{
	redirect(fd, 302, "http://169.254.169.254/latest/meta-data/");
}

/* A length that no number holds, and a body that is cut short. */
static void
answer_overflow(struct tiny *s, int fd, const char *path)
{
	(void)tiny_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\ncut");
}

static void
answer_later(struct tiny *s, int fd, const char *path)
{
	char text[200];

	snprintf(text, sizeof(text), "HTTP/1.1 429 Slow\r\nRetry-After: %s\r\nContent-Length: 0\r\n\r\n",
	    path + strlen("/later/"));
	(void)tiny_say(fd, text);
}

/* A first header line that continues another, and there is none. */
static void
answer_folded(struct tiny *s, int fd, const char *path)
{
	(void)tiny_say(fd, "HTTP/1.1 200 OK\r\n more: of it\r\nContent-Length: 2\r\n\r\nok");
}

static const struct tiny_route http_answers[] = {{"/overflow", answer_overflow}, {"/folded", answer_folded},
    {"/later/90", answer_later}, {"/later/999999999999999999999", answer_later},
    {"/later/soon", answer_later}, {"/later/-5", answer_later}, {"/hang", answer_hang},
    {"/trickle", answer_trickle}, {"/huge", answer_huge}, {"/bomb", answer_bomb}, {"/close", answer_nothing},
    {"/partly", answer_partly}, {"/headers", answer_headers}, {"/interim", answer_interim},
    {"/garbage", answer_garbage}, {"/to-ok/301", answer_redirect}, {"/to-ok/302", answer_redirect},
    {"/to-ok/303", answer_redirect}, {"/to-ok/307", answer_redirect}, {"/loop", answer_loop},
    {"/elsewhere", answer_elsewhere}, {"/ftp", answer_ftp}, {"/metadata", answer_metadata},
    {"/status/204", answer_status}, {"/status/304", answer_status}, {"/status/404", answer_status},
    {"/status/503", answer_status}, {NULL, answer_ok}};
