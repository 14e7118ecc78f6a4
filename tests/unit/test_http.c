/*
 * Kind http against a real server that behaves well and badly.
 */
#include "exec/exec.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/version.h"
#include "exec/http_request.h"
#include "http_harness.h"

static void
http_get_succeeds_with_status_and_output(void **state)
{
	struct pgrab_result r = run_path("/ok", NO_ARGS);
	char agent[120];

	snprintf(agent, sizeof agent, "\r\nUser-Agent: pgrab/%s\r\n", version_text());
	assert_true(r.succeeded);
	assert_true(r.has_exit_code);
	assert_int_equal(r.exit_code, 200);
	assert_string_equal(buf_str(&host.output), "hello");
	assert_true(was_sent("GET /ok HTTP/1.1\r\n"));
	assert_true(was_sent(agent));
	assert_true(was_sent("\r\nPgrab-Task: 42\r\n"));
	assert_true(was_sent("\r\nPgrab-Attempt: 2\r\n"));
	assert_true(was_sent("\r\nPgrab-Fence: 77-3\r\n"));
	assert_true(was_sent("\r\nPgrab-Fire: 2026-11-21T05:00:00.000000Z\r\n"));
	assert_true(was_sent("\r\ntraceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"));
	assert_true(was_sent("\r\nIdempotency-Key: 42-2026-11-21T05:00:00.000000Z\r\n"));
	assert_false(was_sent("Expect:"));
	assert_false(was_sent("Cookie:"));
}

static void
http_body_makes_it_a_post(void **state)
{
	assert_true(run_path("/ok", ARGS({"body", " {\"a\": 1}"})).succeeded);
	assert_true(was_sent("POST /ok HTTP/1.1\r\n"));
	assert_true(was_sent("\r\nContent-Length: 9\r\n"));
	assert_true(was_sent("\r\nContent-Type: application/json\r\n"));
	assert_true(was_sent("\r\n\r\n {\"a\": 1}"));
	assert_true(run_path("/ok", ARGS({"body", "a b"}, {"method", "put"})).succeeded);
	assert_true(was_sent("PUT /ok HTTP/1.1\r\n"));
	assert_true(was_sent("\r\nContent-Type: text/plain; charset=utf-8\r\n"));
}

static void
http_methods_are_sent_as_asked(void **state)
{
	assert_true(run_path("/ok", ARGS({"method", "delete"})).succeeded);
	assert_true(was_sent("DELETE /ok HTTP/1.1\r\n"));
	assert_true(run_path("/ok", ARGS({"method", "POST"})).succeeded);
	assert_true(was_sent("POST /ok HTTP/1.1\r\n"));
	assert_true(was_sent("\r\nContent-Length: 0\r\n"));
	assert_true(run_path("/ok", ARGS({"method", "HEAD"})).succeeded);
	assert_true(was_sent("HEAD /ok HTTP/1.1\r\n"));
	assert_string_equal(buf_str(&host.output), "");
	assert_true(run_path("/ok", ARGS({"method", "Purge"})).succeeded);
	assert_true(was_sent("Purge /ok HTTP/1.1\r\n"));
}

static void
http_headers_of_the_task_win_over_ours(void **state)
{
	assert_true(run_path(
	    "/ok", ARGS({"headers", "X-One=1=1"}, {"headers", "user-agent=me"}, {"headers", "X-Empty="},
		       {"headers", "PGRAB-FENCE=mine"}, {"headers", "Idempotency-Key=order-7"}))
			.succeeded);
	assert_true(was_sent("\r\nX-One: 1=1\r\n"));
	assert_true(was_sent("\r\nuser-agent: me\r\n"));
	assert_true(was_sent("\r\nX-Empty:\r\n"));
	assert_true(was_sent("\r\nPGRAB-FENCE: mine\r\n"));
	assert_false(was_sent("User-Agent"));
	assert_false(was_sent("Pgrab-Fence"));
	assert_true(was_sent("\r\nIdempotency-Key: order-7\r\n"));
	assert_false(was_sent("Idempotency-Key: 42"));
	assert_true(was_sent("Pgrab-Attempt"));
}

static void
http_bad_arguments_are_refused_before_anything_is_sent(void **state)
{
	static const struct {
		struct pgrab_arg arg;
		const char *error;
	} bad[] = {
	    {{"method", "GET /x"}, "args.method \"GET /x\" is not a method; *"},
	    {{"method", ""}, "args.method \"\" *"},
	    {{"method", "CONNECT"}, "args.method *"},
	    {{"headers", "A=1\r\nB: 2"},
		"args.headers: the value of A has a control character (byte 0x0d) in it"},
	    {{"headers", "A=1\nB: 2"}, "*control character (byte 0x0a)*"},
	    {{"headers", "A B=1"}, "args.headers: \"A B\" is not a header name"},
	    {{"headers", "A:=1"}, "*not a header name"},
	    {{"headers", "=1"}, "*not a header name"},
	    {{"headers", "nothing"}, "args.headers must be an object*"},
	    {{"headers", "Content-Length=5"}, "*content-length cannot be set*"},
	    {{"headers", "Transfer-Encoding=chunked"}, "*transfer-encoding cannot be set*"},
	    {{"expect", "2x"}, "args.expect: \"2x\" is not a status; *"},
	    {{"expect", "600"}, "args.expect*"},
	    {{"follow", "yes"}, "args.follow is \"yes\"; it must be true or false"},
	    {{"expects", "200"},
		"kind http knows no args.expects; it knows method, headers, body, expect, follow, await"},
	    {{"await", "yes"}, "args.await is \"yes\"; it must be true or false"},
	};
	unsigned before = requests();

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pgrab_result r = run_path("/ok", &bad[i].arg, 1);

		expect_error(&r, bad[i].error);
		assert_false(r.has_exit_code || r.not_started);
	}
	struct pgrab_result r = run_path("/ok", ARGS({"body", "1"}, {"body", "2"}));
	expect_error(&r, "args.body must be one text*");
	r = run_path("/ok", ARGS({"body", "1"}, {"method", "head"}));
	expect_error(&r, "a HEAD request cannot have args.body");
	r = run_path("/ok", ARGS({"await", "true"}, {"follow", "true"}));
	expect_error(&r, "args.follow and args.await do not go together: *");
	assert_int_equal(requests(), before);
}

static void
http_urls_other_than_http_are_refused(void **state)
{
	static const char *const bad[][2] = {
	    {"", "command is empty*"},
	    {"   ", "command *"},
	    {"127.0.0.1/ok", "command must begin with http:// or https://*"},
	    {"file:///etc/passwd", "command must begin with http:// or https://*"},
	    {"gopher://127.0.0.1/x", "command must begin with http:// or https://*"},
	    {"http://", "command is not a URL*"},
	    {"http://a b/", "command is not a URL*"},
	    {"http://a/\r\nX: y", "command is not a URL*"},
	    {"http://127.0.0.1:99999/", "command is not a URL*"},
	    {"http://169.254.169.254/latest", "not connected to 169.254.169.254 port 80: *link-local*"},
	    {"http://[::ffff:169.254.169.254]/", "not connected to *link-local*"},
	    {"http://2852039166/", "not connected to *link-local*"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct pgrab_result r = run_url(bad[i][0], NO_ARGS);

		expect_error(&r, bad[i][1]);
		assert_false(r.has_exit_code);
	}
}

static void
http_expect_says_what_success_is(void **state)
{
	struct pgrab_result r = run_path("/status/503", NO_ARGS);

	expect_error(&r, "HTTP 503, expected 2xx");
	assert_int_equal(r.exit_code, 503);
	assert_string_equal(buf_str(&host.output), "body");
	r = run_path("/status/404", ARGS({"expect", "200"}, {"expect", "5xx, 403"}));
	expect_error(&r, "HTTP 404, expected 200, 5xx, 403");
	r = run_path("/status/404", ARGS({"expect", "2xx"}, {"expect", "404"}));
	assert_true(r.succeeded);
	assert_int_equal(r.exit_code, 404);
	assert_true(run_path("/status/503", ARGS({"expect", "200,5XX"})).succeeded);
	assert_true(run_path("/status/204", NO_ARGS).succeeded);
	r = run_path("/ok", ARGS({"expect", "204"}));
	expect_error(&r, "HTTP 200, expected 204");
}

static void
http_redirect_is_followed_only_when_asked(void **state)
{
	struct pgrab_result r = run_path("/to-ok/302", NO_ARGS);

	expect_error(&r, "redirect (302) to http://127.0.0.1:*/ok not followed; set args.follow to allow it");
	assert_int_equal(r.exit_code, 302);
	assert_true(run_path("/to-ok/302", ARGS({"expect", "302"})).succeeded);
	r = run_path("/to-ok/302", ARGS({"follow", "true"}, {"headers", "Authorization=secret"}));
	assert_true(r.succeeded);
	assert_int_equal(r.exit_code, 200);
	assert_string_equal(buf_str(&host.output), "hello");
	assert_true(was_sent("GET /ok "));
	assert_true(was_sent("Authorization: secret"));
}

static void
http_redirect_of_a_post_follows_the_rfc(void **state)
{
	assert_true(run_path("/to-ok/301", ARGS({"follow", "true"}, {"body", "data"})).succeeded);
	assert_true(was_sent("GET /ok ") && !was_sent("data") && !was_sent("Content-Type"));
	assert_true(
	    run_path("/to-ok/303", ARGS({"follow", "true"}, {"body", "data"}, {"method", "PUT"})).succeeded);
	assert_true(was_sent("GET /ok ") && !was_sent("data"));
	assert_true(
	    run_path("/to-ok/301", ARGS({"follow", "true"}, {"body", "data"}, {"method", "PUT"})).succeeded);
	assert_true(was_sent("PUT /ok ") && was_sent("\r\n\r\ndata"));
	assert_true(run_path("/to-ok/307", ARGS({"follow", "true"}, {"body", "data"})).succeeded);
	assert_true(was_sent("POST /ok ") && was_sent("\r\n\r\ndata"));
}

static void
http_redirect_to_another_host_leaves_secrets_behind(void **state)
{
	struct pgrab_result r =
	    run_path("/elsewhere", ARGS({"follow", "true"}, {"headers", "X-Api-Key=secret"},
				       {"headers", "Accept-Token=secret"}, {"headers", "Content-Key=secret"},
				       {"headers", "Cookie=secret"}, {"headers", "Accept=text/html"}));

	assert_true(r.succeeded);
	assert_true(was_sent("\r\nHost: localhost:"));
	assert_true(was_sent("\r\nAccept: text/html"));
	assert_false(was_sent("secret"));
}

static void
http_redirect_ends_somewhere(void **state)
{
	unsigned before = requests();
	struct pgrab_result r = run_path("/loop", ARGS({"follow", "true"}));

	expect_error(&r, "more than 5 redirects");
	assert_int_equal(requests() - before, 6);
	r = run_path("/ftp", ARGS({"follow", "true"}));
	expect_error(&r, "redirected to ftp://127.0.0.1/etc/passwd: only http and https are requested");
	r = run_path("/metadata", ARGS({"follow", "true"}));
	expect_error(&r, "not connected to 169.254.169.254 port 80: *");
}

static void
http_reply_with_a_length_beyond_numbers_is_no_success(void **state)
{
	struct pgrab_result r = run_path("/overflow", NO_ARGS);

	expect_error(&r,
	    "could not understand the reply of 127.0.0.1 port *: HTTP 200 with a Content-Length that is not "
	    "a number of bytes");
}

static void
http_says_how_long_the_server_wants_peace(void **state)
{
	struct pgrab_result r = run_path("/later/90", NO_ARGS);

	expect_error(&r, "HTTP 429, expected 2xx; Retry-After 90 s");
	assert_int_equal(r.retry_after_us, 90 * US_PER_S);
	r = run_path("/later/999999999999999999999", NO_ARGS);
	assert_true(r.retry_after_us >= 0 && r.retry_after_us <= 86400 * US_PER_S);
	assert_int_equal(run_path("/later/soon", NO_ARGS).retry_after_us, 0);
	assert_int_equal(run_path("/later/-5", NO_ARGS).retry_after_us, 0);
	assert_int_equal(run_path("/later/90", ARGS({"expect", "429"})).retry_after_us, 0);
	assert_int_equal(run_path("/status/503", NO_ARGS).retry_after_us, 0);
}

static void
http_goes_only_where_the_file_lets_its_owner(void **state)
{
	const struct bounds_common common = {.job_cwd = "/", .job_umask = "077", .allow_root = true};
	const struct bounds_texts texts[] = {{.http_hosts = "localhost"}};
	struct bounds_list l;
	struct exec_env env = {.bounds = &l};
	struct http *free_client = client;
	struct pgrab_result r;
	char url[100];

	assert_int_equal(bounds_make(&l, &common, texts, 1, NULL), RC_OK);
	client = http_open(&env, r.error, sizeof r.error);
	r = run_path("/ok", NO_ARGS);
	expect_error(
	    &r, "not connected to 127.0.0.1 port *: 127.0.0.1 port * is not among http_hosts of this node");
	snprintf(url, sizeof url, "http://localhost:%d/ok", server.port);
	assert_true(run_url(url, NO_ARGS).succeeded);
	r = run_path("/elsewhere", ARGS({"follow", "true"})); /* the first hop counts as well as the last */
	expect_error(&r, "not connected to 127.0.0.1 port *");
	setenv("http_proxy", "http://localhost:1", 1);
	r = run_path("/ok", NO_ARGS); /* nor through a proxy */
	expect_error(&r, "not connected to 127.0.0.1 port *");
	unsetenv("http_proxy");
	http_close(client);
	client = free_client;
	bounds_fini(&l);
}

/* Several at once, each with a host of its own. */
struct one {
	struct pgrab_host host;
	struct pgrab_result result;
	enum pgrab_stop stop;
	bool ended;
	size_t printed;
};

static enum pgrab_stop
one_stop(void *ctx)
{
	return ((struct one *)ctx)->stop;
}

static void
one_output(void *ctx, const void *bytes, size_t n)
{
	((struct one *)ctx)->printed += n;
}

static void
one_ended(void *ctx, const struct pgrab_result *result)
{
	struct one *o = ctx;

	assert_false(o->ended);
	o->ended = true;
	o->result = *result;
}

/* A port where connections are taken and nothing is answered. */
static int
listen_mute(int *port_out)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, 16) == 0 &&
		    getsockname(fd, (struct sockaddr *)&a, &len) == 0);
	*port_out = ntohs(a.sin_port);
	return fd;
}

static void
http_many_are_under_way_at_once_and_each_ends_by_itself(void **state)
{
	struct one one[40] = {0};
	char hang[100], ok[100];
	struct pgrab_run run = {
	    .size = sizeof run, .name = "", .kind = "http", .fire_at = "", .fence = "1-1", .owner = ""};
	int ended = 0, port, mute = listen_mute(&port);

	snprintf(hang, sizeof hang, "http://127.0.0.1:%d/", port);
	snprintf(ok, sizeof ok, "http://127.0.0.1:%d/ok", server.port);
	for (int i = 0; i < 40; i++) {
		static struct pgrab_run runs[40];

		one[i].host = (struct pgrab_host){
		    .size = sizeof one[i].host, .ctx = &one[i], .stop = one_stop, .output = one_output};
		runs[i] = run;
		runs[i].command = i == 39 ? "no url" : i < 4 ? hang : ok;
		http_begin(client, &runs[i], &one[i].host, one_ended);
		assert_false(one[i].ended); /* not from within that call */
	}
	while (ended < 36) {
		http_drive(client, host.host.stop_fd, CLOCK_NEVER);
		ended = 0;
		for (int i = 4; i < 40; i++)
			ended += one[i].ended;
	}
	for (int i = 0; i < 40; i++) {
		assert_true(one[i].ended == (i >= 4));
		assert_true(one[i].result.succeeded == (i >= 4 && i < 39));
		assert_int_equal(one[i].printed, i >= 4 && i < 39 ? 5 : 0);
	}
	for (int i = 0; i < 4; i++)
		one[i].stop = i == 0 ? PGRAB_STOP_NONE : PGRAB_STOP_CANCEL;
	http_look_at_stops(client);
	http_drive(client, host.host.stop_fd, 0);
	assert_false(one[0].ended);
	for (int i = 1; i < 4; i++)
		expect_error(&one[i].result, "cancelled while waiting for 127.0.0.1 port *");
	one[0].stop = PGRAB_STOP_SHUTDOWN;
	http_look_at_stops(client);
	http_drive(client, host.host.stop_fd, 0);
	assert_true(one[0].ended && !one[0].result.succeeded);
	close(mute);
}

static void
http_stop_ends_a_hanging_request(void **state)
{
	struct pgrab_result r = run_path("/hang", NO_ARGS);

	expect_error(&r, "timed out while waiting for 127.0.0.1 port *");
	assert_false(r.has_exit_code || r.not_started);
	assert_null(strstr(r.error, "effect"));
}

static void
http_stop_of_a_sent_post_says_what_is_not_known(void **state)
{
	struct pgrab_result r = run_path("/hang", ARGS({"body", "x"}));

	expect_error(
	    &r, "timed out while waiting for *; the request had been sent and may have taken effect");
}

static void
http_stop_ends_a_trickling_reply(void **state)
{
	struct pgrab_result r = run_path("/trickle", NO_ARGS);

	expect_error(&r, "cancelled while reading the reply (HTTP 200) of 127.0.0.1 port *");
	assert_int_equal(r.exit_code, 200);
	assert_true(host.output.len >= 1);
}

static void
http_run_that_must_not_start_sends_nothing(void **state)
{
	unsigned before = requests();
	struct pgrab_result r;

	fake_host_stop(&host, PGRAB_STOP_FENCED);
	r = run_path("/ok", NO_ARGS);
	expect_error(&r, "stopped because the node lost its lease*");
	assert_int_equal(requests(), before);
}

static void
http_replies_without_end_are_cut_off(void **state)
{
	struct pgrab_result r = run_path("/huge", NO_ARGS);

	expect_error(&r, "HTTP 200, but the reply is larger than 16 MiB");
	assert_int_equal(r.exit_code, 200);
	assert_true(host.output.len <= 16 << 20);
	r = run_path("/bomb", NO_ARGS);
	expect_error(&r, "HTTP 200, but the reply is larger than 16 MiB");
	r = run_path("/headers", NO_ARGS);
	expect_error(&r, "the headers of the reply are larger than 256 KiB");
	r = run_path("/interim", NO_ARGS);
	expect_error(&r, "the headers of the reply are larger than 256 KiB");
}

static void
http_lost_connection_is_told_and_never_retried(void **state)
{
	unsigned before;
	struct pgrab_result r;

	assert_true(run_path("/ok", NO_ARGS).succeeded); /* a kept connection would tempt libcurl */
	before = requests();
	r = run_path("/close", ARGS({"body", "x"}));
	expect_error(&r,
	    "lost the connection to 127.0.0.1 port *; the request had been sent and may have taken effect");
	assert_int_equal(requests() - before, 1);
	assert_false(r.has_exit_code);
	r = run_path("/partly", NO_ARGS);
	expect_error(&r, "HTTP 200, then: lost the connection to *");
	assert_int_equal(r.exit_code, 200);
	r = run_path("/garbage", NO_ARGS);
	expect_error(&r, "could not understand the reply of 127.0.0.1 port *");
	for (const char *c = r.error; *c != '\0'; c++)
		assert_true((unsigned char)*c >= ' ');
}

static void
http_nobody_there_is_told_with_the_reason(void **state)
{
	struct pgrab_result r = run_url("http://127.0.0.1:1/", ARGS({"body", "x"}));

	expect_error(&r, "could not connect to 127.0.0.1 port 1: Connection refused");
	assert_false(r.not_started);
	/* a label of 64 letters: refused by the resolver itself, so that the test needs no network */
	r = run_url("http://abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl/", NO_ARGS);
	expect_error(&r, "could not find the address of abc*jkl port 80: *");
	r = run_path("/ok", NO_ARGS);
	assert_true(r.succeeded);
}

static void
http_tls_failure_is_told(void **state)
{
	char url[100];
	struct pgrab_result r;

	snprintf(url, sizeof(url), "https://127.0.0.1:%d/garbage", server.port);
	r = run_url(url, NO_ARGS);
	expect_error(&r, "could not make a TLS connection to 127.0.0.1 port *");
}

/* libcurl up to 8.0 took it for more of the last header of the reply before, which it had freed. */
static void
http_reply_that_begins_with_more_of_a_header_touches_no_reply_before(void **state)
{
	for (int i = 0; i < 3; i++) {
		assert_true(run_path("/ok", NO_ARGS).succeeded);
		(void)run_path("/folded", NO_ARGS); /* what it means is for libcurl to say */
	}
}

/* Cut, it would be a name that is on the list. */
static void
http_host_longer_than_any_is_no_host(void **state)
{
	struct pgrab_run run = {.size = sizeof run, .kind = "http"};
	struct http_request r;
	struct err err;
	struct buf url = {0};
	char name[256];
	uint16_t port;

	buf_adds(&url, "http://");
	for (int i = 0; i < 255 - (int)strlen(".example.org"); i++)
		buf_addc(&url, 'a');
	buf_adds(&url, ".example.org");
	run.command = buf_str(&url);
	assert_int_equal(http_request_init(&r, &run, &err), RC_OK);
	http_request_place(&r, name, sizeof name, &port);
	assert_non_null(strstr(name, ".example.org"));
	assert_int_equal(port, 80);
	http_request_fini(&r);
	buf_adds(&url, ".evil.net");
	run.command = buf_str(&url);
	assert_int_equal(http_request_init(&r, &run, &err), RC_OK);
	http_request_place(&r, name, sizeof name, &port);
	assert_string_equal(name, "");
	http_request_fini(&r);
	buf_fini(&url);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(http_get_succeeds_with_status_and_output, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_body_makes_it_a_post, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_methods_are_sent_as_asked, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_headers_of_the_task_win_over_ours, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		http_bad_arguments_are_refused_before_anything_is_sent, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_urls_other_than_http_are_refused, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_expect_says_what_success_is, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_redirect_is_followed_only_when_asked, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_redirect_of_a_post_follows_the_rfc, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		http_redirect_to_another_host_leaves_secrets_behind, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_redirect_ends_somewhere, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		http_reply_with_a_length_beyond_numbers_is_no_success, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_says_how_long_the_server_wants_peace, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_goes_only_where_the_file_lets_its_owner, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		http_many_are_under_way_at_once_and_each_ends_by_itself, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_stop_ends_a_hanging_request, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_stop_of_a_sent_post_says_what_is_not_known, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_stop_ends_a_trickling_reply, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_run_that_must_not_start_sends_nothing, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_replies_without_end_are_cut_off, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_lost_connection_is_told_and_never_retried, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_nobody_there_is_told_with_the_reason, setup, teardown),
	    cmocka_unit_test_setup_teardown(http_tls_failure_is_told, setup, teardown),
	    cmocka_unit_test_setup_teardown(
		http_reply_that_begins_with_more_of_a_header_touches_no_reply_before, setup, teardown),
	    cmocka_unit_test(http_host_longer_than_any_is_no_host),
	};

	signal(SIGPIPE, SIG_IGN);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	unsetenv("ALL_PROXY");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
