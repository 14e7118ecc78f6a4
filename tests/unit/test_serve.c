/* What pgrab serve reads from strangers and writes for browsers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/escape.h"
#include "serve/expose.h"
#include "serve/guard.h"
#include "serve/route.h"
#include "serve/settings.h"

static void
check(void (*write)(struct buf *, const char *), const char *in, const char *want)
{
	struct buf out = {0};

	write(&out, in);
	assert_string_equal(buf_str(&out), want);
	buf_fini(&out);
}

static void
text_of_others_stays_text_in_a_page(void **state)
{
	check(html_text, "", "");
	check(html_text, "<script>alert('1')</script>", "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;");
	check(html_text, "\" onload=\"x&y", "&quot; onload=&quot;x&amp;y");
	check(html_text, "a\tb\nc\x1b[2J\x7f", "a\tb\nc\xef\xbf\xbd[2J\xef\xbf\xbd");
	check(html_text, "\xc3\xa4\xe6\x97\xa5", "\xc3\xa4\xe6\x97\xa5");
	check(html_text, "cut \xe6\x97", "cut \xef\xbf\xbd\xef\xbf\xbd");
	check(html_text, "exe\xe2\x80\xaetxt\xe2\x81\xa7",
	    "exe\xef\xbf\xbdtxt\xef\xbf\xbd"); /* turns the direction */
	check(html_url, "a/b c?\xc3\xa4&=+~", "a%2Fb%20c%3F%C3%A4%26%3D%2B~");

	AUTO_BUF struct buf out = {0};

	html_addf(&out, "<a href=\"%s\">%d of %s</a>", "\"<", 7, "a & b");
	assert_string_equal(buf_str(&out), "<a href=\"&quot;&lt;\">7 of a &amp; b</a>");
}

static void
json_texts_are_valid(void **state)
{
	check(buf_json, NULL, "null");
	check(buf_json, "a\"b\\c\n\x01", "\"a\\\"b\\\\c\\u000a\\u0001\"");
	check(buf_json, "\xff\xc3\xa4", "\"\\ufffd\xc3\xa4\"");
}

static void
labels_are_escaped(void **state)
{
	struct buf out = {0};
	struct expose e = {.out = &out};

	expose_sample(&e, "x", "_total", "node", "a\"b\\c\nd", "k", "v", 3);
	assert_string_equal(buf_str(&out), "pgrab_x_total{node=\"a\\\"b\\\\c\\nd\",k=\"v\"} 3\n");
	buf_fini(&out);
}

static void
only_names_of_ours_are_answered(void **state)
{
	struct serve_settings set = {.hosts = xstrdup("pgrab.example.org, two")};
	static const char *const good[] = {"localhost", "localhost:8080", "LOCALHOST", "127.0.0.1:1",
	    "[::1]:8080", "[::1]", "pgrab.example.org", "PGRAB.example.org:443", "two"};
	static const char *const bad[] = {"", "evil.example", "localhost.evil.example", "pgrab.example",
	    "[::1", "[::1]x", "two,pgrab.example.org", ",", " "};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_true(guard_host(&set, good[i]));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(guard_host(&set, bad[i]));
	assert_false(guard_host(&set, NULL));
	free(set.hosts);
}

static void
cookies_are_found_by_their_whole_name(void **state)
{
	char out[8];

	assert_true(guard_cookie("a=1; b=22;c=333", "b", out, sizeof out));
	assert_string_equal(out, "22");
	assert_true(guard_cookie("a=1; b=22;c=333", "c", out, sizeof out));
	assert_string_equal(out, "333");
	assert_false(guard_cookie("xb=1; bb=2; b", "b", out, sizeof out));
	assert_false(guard_cookie("b=12345678", "b", out, sizeof out));
	assert_false(guard_cookie(NULL, "b", out, sizeof out));
}

static const char *
path_of(const char *method, const char *path, struct call *c, const char **allow)
{
	const struct route *r = route_find(c, method, path, allow);

	return r == NULL ? NULL : r->path;
}

static void
routes_are_found_by_method_and_path(void **state)
{
	struct serve_settings set = {.callback_listen = NULL};
	struct call *c = xcalloc(1, sizeof *c);
	const char *allow;

	c->set = &set;
	TAILQ_INIT(&c->query);
	TAILQ_INIT(&c->form);
	assert_string_equal(path_of("GET", "/api/v1/tasks", c, &allow), "/api/v1/tasks");
	assert_string_equal(path_of("HEAD", "/livez", c, &allow), "/livez");
	assert_string_equal(
	    path_of("POST", "/api/v1/tasks/a%2Fb%20c/run-now", c, &allow), "/api/v1/tasks/*/run-now");
	assert_string_equal(c->part[0], "a/b c");
	assert_null(path_of("GET", "/api/v1/tasks/", c, &allow));
	assert_null(allow);
	assert_null(path_of("GET", "/api/v1/tasksx", c, &allow));
	assert_null(path_of("GET", "/api/v1/tasks/%00", c, &allow));
	assert_null(path_of("GET", "/api/v1/tasks/1/", c, &allow));
	assert_null(path_of("PUT", "/api/v1/tasks/17", c, &allow));
	assert_string_equal(allow, "GET, HEAD, PATCH, DELETE");
	assert_null(path_of("DELETE", "/api/v1/tasks", c, &allow));
	assert_string_equal(allow, "GET, HEAD, POST");
	assert_null(path_of("POST", "/callback/1/x", c, &allow));
	call_free(c);
}

static void
the_door_of_callbacks_has_no_page_and_no_api(void **state)
{
	static char listen[] = "127.0.0.1:1";
	struct serve_settings set = {.callback_listen = listen};
	struct call *c = xcalloc(1, sizeof *c);
	const char *allow;

	c->set = &set;
	TAILQ_INIT(&c->query);
	TAILQ_INIT(&c->form);
	assert_string_equal(path_of("POST", "/callback/1/x", c, &allow), "/callback/*/*");
	for (size_t i = 0; i < 4; i++)
		assert_null(path_of(
		    "GET", (const char *[]){"/", "/tasks", "/api/v1/tasks", "/metrics"}[i], c, &allow));
	call_free(c);
}

static void
addresses_are_read_without_looking_anything_up(void **state)
{
	const char *at = "127.0.0.1:80, [::1]:81,0.0.0.0:82 unix:/run/x";
	struct serve_address a;
	struct err err;

	assert_true(serve_next_address(&at, &a, &err));
	assert_true(a.local && a.port == 80);
	assert_true(serve_next_address(&at, &a, &err));
	assert_true(a.local && a.port == 81 && strcmp(a.text, "::1") == 0);
	assert_true(serve_next_address(&at, &a, &err));
	assert_false(a.local);
	assert_true(serve_next_address(&at, &a, &err));
	assert_true(a.local && a.port == 0 && strcmp(a.text, "/run/x") == 0);
	assert_false(serve_next_address(&at, &a, &err));
	assert_string_equal(err.text, "");
	for (const char *
		 bad[] = {"x:80", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", ":80", "unix:x", NULL},
		**b = bad;
	     *b != NULL; b++) {
		at = *b;
		assert_false(serve_next_address(&at, &a, &err));
		assert_string_not_equal(err.text, "");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(text_of_others_stays_text_in_a_page),
	    cmocka_unit_test(json_texts_are_valid),
	    cmocka_unit_test(labels_are_escaped),
	    cmocka_unit_test(only_names_of_ours_are_answered),
	    cmocka_unit_test(cookies_are_found_by_their_whole_name),
	    cmocka_unit_test(routes_are_found_by_method_and_path),
	    cmocka_unit_test(the_door_of_callbacks_has_no_page_and_no_api),
	    cmocka_unit_test(addresses_are_read_without_looking_anything_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
