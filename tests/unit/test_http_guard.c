/*
 * Where kind http may connect to: the addresses that are never right, in all their spellings, and
 * the list of the node's file.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "exec/http_guard.h"

static const struct http_hosts any;

static bool
refused(const struct http_hosts *h, bool listed, const char *address, uint16_t port)
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
	char why[200] = "";
	bool no;

	if (!is_v4)
		assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
	no = http_address_refused(
	    h, listed, is_v4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6, why, sizeof why);
	assert_true(no == (why[0] != '\0'));
	return no;
}

static void
guard_refuses_metadata_in_every_spelling(void **state)
{
	static const char *const bad[] = {"169.254.169.254", "169.254.0.1", "169.254.170.2",
	    "100.100.100.200", "168.63.129.16", "192.0.0.192", "fe80::1", "febf::1", "fd00:ec2::254",
	    "fd00:ec2::23", "fd20:ce::254", "::ffff:169.254.169.254", "::ffff:100.100.100.200",
	    "::169.254.169.254", "::ffff:0:169.254.169.254", "64:ff9b::169.254.169.254", "64:ff9b::a83f:8110",
	    "64:ff9b:1::169.254.169.254", "64:ff9b:1:a9fe:a9:fe00::", "2002:a9fe:a9fe::1",
	    "2001:0:a9fe:a9fe::1", "2001:0:1:1::5601:5601", "fd12::5efe:169.254.169.254",
	    "2001:db8::200:5efe:a9fe:a9fe"};
	static const char *const good[] = {"127.0.0.1", "10.0.0.1", "192.168.1.1", "169.253.255.255",
	    "169.255.0.1", "100.100.100.201", "168.63.129.17", "8.8.8.8", "::1", "fec0::1", "fd00:ec3::254",
	    "2001:db8::1", "64:ff9b::8.8.8.8", "2002:808:808::1", "::ffff:127.0.0.1"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		if (!refused(&any, true, bad[i], 80))
			fail_msg("%s", bad[i]);
	}
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		if (refused(&any, true, good[i], 80))
			fail_msg("%s", good[i]);
	}
}

static bool
listed(const struct http_hosts *h, const char *host, uint16_t port)
{
	char why[200] = "";
	bool yes, no = http_host_refused(h, host, port, &yes, why, sizeof why);

	assert_true(no == (why[0] != '\0') && !(no && yes));
	return yes;
}

static void
list_lets_through_what_it_names(void **state)
{
	struct http_hosts h;
	struct err err = {0};

	assert_int_equal(
	    http_hosts_read(&h, "http_hosts",
		"API.example.org, *.internal:8443,10.0.0.0/8 192.0.2.7:80, [fd00:1::]/32:443,2001:db8::/33",
		&err),
	    RC_OK);
	assert_int_equal(h.n, 6);
	assert_true(listed(&h, "api.example.org", 80) && listed(&h, "API.Example.Org.", 443));
	assert_false(listed(&h, "xapi.example.org", 80) || listed(&h, "api.example.org.evil.com", 80));
	assert_true(listed(&h, "a.b.internal", 8443));
	assert_false(listed(&h, "a.b.internal", 443) || listed(&h, "internal", 8443));
	assert_true(listed(&h, "10.1.2.3", 9999) && listed(&h, "[fd00:1::5]", 443));
	assert_false(
	    listed(&h, "11.1.2.3", 80) || listed(&h, "[fd00:1::5]", 80) || listed(&h, "[fd00:2::5]", 443));
	assert_false(refused(&h, false, "10.255.0.1", 1) || refused(&h, false, "192.0.2.7", 80));
	assert_true(refused(&h, false, "192.0.2.7", 81) && refused(&h, false, "192.0.2.8", 80));
	assert_false(refused(&h, false, "2001:db8:7fff::1", 80));
	assert_true(refused(&h, false, "2001:db8:8000::1", 80));
	assert_false(refused(&h, true, "8.8.8.8", 80)); /* its name was on the list */
	http_hosts_fini(&h);
}

static void
guard_yields_only_to_the_very_address(void **state)
{
	struct http_hosts h;

	assert_int_equal(http_hosts_read(&h, "http_hosts", "0.0.0.0/0, ::/0", NULL), RC_OK);
	assert_true(refused(&h, false, "169.254.169.254", 80) && refused(&h, true, "fe80::1", 80));
	assert_false(refused(&h, false, "8.8.8.8", 80) || refused(&h, false, "2001:db8::1", 80));
	http_hosts_fini(&h);
	assert_int_equal(http_hosts_read(&h, "http_hosts", "169.254.1.1:8080, 169.254.0.0/16", NULL), RC_OK);
	assert_false(refused(&h, false, "169.254.1.1", 8080));
	assert_true(refused(&h, false, "169.254.1.1", 80) && refused(&h, false, "169.254.1.2", 8080));
	http_hosts_fini(&h);
}

static void
empty_list_lets_nothing_through(void **state)
{
	struct http_hosts h;

	assert_int_equal(http_hosts_read(&h, "http_hosts", "", NULL), RC_OK);
	assert_true(h.limited && refused(&h, false, "127.0.0.1", 80));
	assert_false(listed(&h, "localhost", 80) || listed(&h, "127.0.0.1", 80));
	http_hosts_fini(&h);
	assert_int_equal(http_hosts_read(&h, "http_hosts", NULL, NULL), RC_OK);
	assert_false(h.limited || refused(&h, false, "127.0.0.1", 80));
	http_hosts_fini(&h);
}

static void
list_refuses_what_is_no_host(void **state)
{
	static const char *const bad[] = {"http://x", "a b/8", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/",
	    "x/8", "::/129", "[::1", "[::1]x", "[x]", "a:0", "a:65536", "a:b", "a:", "*", "*.", "a*b",
	    "a,b:", "..", "[::1]:", "[::1]/64/3", "10.0.0.0/8/9", "\xc3\xa4.de"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct http_hosts h;
		struct err err = {0};

		if (http_hosts_read(&h, "here", bad[i], &err) != RC_BAD)
			fail_msg("%s", bad[i]);
		assert_non_null(strstr(err.text, "here: \""));
		http_hosts_fini(&h);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(guard_refuses_metadata_in_every_spelling),
	    cmocka_unit_test(list_lets_through_what_it_names),
	    cmocka_unit_test(guard_yields_only_to_the_very_address),
	    cmocka_unit_test(empty_list_lets_nothing_through),
	    cmocka_unit_test(list_refuses_what_is_no_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
