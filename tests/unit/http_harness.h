/*
 * What the tests of kind http run in: a server, a host, one executor; and how they check the outcome.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "exec/bounds.h"
#include "exec/exec.h"
#include "http_answers.h"
#include "http_once.h"

static struct tiny server;
static struct fake_host host; /* of the test that runs */
static struct http *client;

static struct pgrab_result
run_url(const char *url, const struct pgrab_arg *args, size_t n)
{
	struct pgrab_run run = {.size = sizeof(run),
	    .task_id = 42,
	    .name = "",
	    .kind = "http",
	    .command = url,
	    .fire_at = "2026-11-21T05:00:00.000000Z",
	    .fence = "77-3",
	    .attempt = 2,
	    .max_attempts = 3,
	    .n_args = n,
	    .args = args,
	    .traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"};
	struct pgrab_result result;

	buf_reset(&host.output);
	result = http_once(client, &run, &host.host);
	assert_true(result.succeeded == (result.error[0] == '\0'));
	return result;
}

static struct pgrab_result
run_path(const char *path, const struct pgrab_arg *args, size_t n)
{
	char url[200];

	snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", server.port, path);
	return run_url(url, args, n);
}

#define ARGS(...)                                \
	(const struct pgrab_arg[]){__VA_ARGS__}, \
	    sizeof((struct pgrab_arg[]){__VA_ARGS__}) / sizeof(struct pgrab_arg)
#define NO_ARGS NULL, 0

/* Does `text` match the pattern, where each * matches anything? */
static bool
like(const char *text, const char *pattern)
{
	for (; *pattern != '*'; pattern++, text++) {
		if (*pattern != *text)
			return false;
		if (*pattern == '\0')
			return true;
	}
	for (;; text++) {
		if (like(text, pattern + 1))
			return true;
		if (*text == '\0')
			return false;
	}
}

static void
expect_error(const struct pgrab_result *r, const char *pattern)
{
	assert_false(r->succeeded);
	if (!like(r->error, pattern))
		fail_msg("got  \"%s\"\nwant \"%s\"", r->error, pattern);
}

static bool
was_sent(const char *text)
{
	bool found;

	pthread_mutex_lock(&server.lock);
	found = strstr(server.last, text) != NULL;
	pthread_mutex_unlock(&server.lock);
	return found;
}

static unsigned
requests(void)
{
	unsigned n;

	pthread_mutex_lock(&server.lock);
	n = server.requests;
	pthread_mutex_unlock(&server.lock);
	return n;
}

static int
setup(void **state)
{
	static struct bounds no_bounds;
	static const struct bounds_list all = {1, &no_bounds};
	static const struct exec_env env = {.bounds = &all};
	char err[200] = "";

	memset(&server, 0, sizeof(server));
	server.ctx = &host;
	fake_host_init(&host);
	tiny_start(&server, http_answers);
	client = http_open(&env, err, sizeof(err));
	return client == NULL;
}

static int
teardown(void **state)
{
	http_close(client);
	tiny_stop(&server); /* it may still hold the host */
	fake_host_fini(&host);
	return 0;
}
