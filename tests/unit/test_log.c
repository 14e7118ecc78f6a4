/*
 * The log, read back from a packet socket in place of stderr: one packet is one write(2).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/rc.h"
#include "base/thread.h"

struct capture {
	int read_fd, saved_stderr;
};

static char line[8192]; /* what was written last */

static int
setup(void **state)
{
	struct capture *c = calloc(1, sizeof *c);
	int fd[2];

	assert_non_null(c);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fd), 0);
	c->read_fd = fd[0];
	c->saved_stderr = dup(STDERR_FILENO);
	dup2(fd[1], STDERR_FILENO);
	close(fd[1]);
	*state = c;
	return 0;
}

static int
teardown(void **state)
{
	struct capture *c = *state;

	dup2(c->saved_stderr, STDERR_FILENO);
	close(c->saved_stderr);
	close(c->read_fd);
	free(c);
	log_init(LOG_INFO, LOG_TEXT, NULL);
	log_thread("main");
	return 0;
}

/* Number of writes since the last call; the last of them is in `line`. */
static int
written(void **state)
{
	struct capture *c = *state;
	int packets = 0;
	ssize_t n;

	while ((n = recv(c->read_fd, line, sizeof line - 1, MSG_DONTWAIT)) > 0) {
		line[n] = '\0';
		packets++;
	}
	return packets;
}

/* One line was written, and it is exactly: the time, then rest. */
static void
assert_line(void **state, const char *before, const char *rest)
{
	size_t skip = strlen(before), time_len = strlen("2026-11-21T05:12:01.123Z");
	regex_t re;

	assert_int_equal(written(state), 1);
	assert_int_equal(regcomp(&re, "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z",
			     REG_EXTENDED | REG_NOSUB),
	    0);
	assert_memory_equal(line, before, skip);
	assert_int_equal(regexec(&re, line + skip, 0, NULL, 0), 0);
	regfree(&re);
	assert_string_equal(line + skip + time_len, rest);
}

static void
text_line_has_time_level_thread_event_and_pairs(void **state)
{
	log_thread("boss");
	log_info("drain", "held=%d name=\"%s\"", 12, "a b");
	assert_line(state, "", " info  boss      event=drain held=12 name=\"a b\"\n");
	log_init(LOG_DEBUG, LOG_TEXT, "eu1");
	log_debug("x", "%s", "");
	assert_line(state, "", " debug boss      node=eu1 event=x\n");
}

static void
json_line_has_the_same(void **state)
{
	log_init(LOG_INFO, LOG_JSON, NULL);
	log_thread("boss");
	log_warn("drain", "held=%d name=\"%s\"", 12, "a b");
	assert_line(state, "{\"time\":\"",
	    "\",\"level\":\"warn\",\"thread\":\"boss\",\"event\":\"drain\",\"held\":\"12\",\"name\":\"a "
	    "b\"}\n");
	log_init(LOG_INFO, LOG_JSON, "a\"b");
	log_error("x", "%s", "");
	assert_line(state, "{\"time\":\"",
	    "\",\"level\":\"error\",\"thread\":\"boss\",\"node\":\"a\\\"b\",\"event\":\"x\"}\n");
}

static void
node_is_not_said_twice(void **state)
{
	log_init(LOG_INFO, LOG_TEXT, "eu1");
	log_info("up", "node=%s n=1", "eu1");
	assert_line(state, "", " info  main      node=eu1 event=up n=1\n");
	log_info("down", "node=%s n=1", "eu2");
	assert_line(state, "", " info  main      node=eu1 event=down node=eu2 n=1\n");
}

static void
values_are_escaped(void **state)
{
	log_info("x", "a=\"%s\" b=%s", "q\" c\\d\n\t\x01\x7f\xff\xc2\x85\xc3\xa4", "e");
	assert_line(state, "",
	    " info  main      event=x a=\"q\\\" c\\\\d\\n\\t\\x01\\x7F\\xFF\\xC2\\x85\xc3\xa4\" b=e\n");
	log_init(LOG_INFO, LOG_JSON, NULL);
	log_info("x", "a=\"%s\" b=%s", "q\" c\\d\n\t\x01\x7f\xff\xc2\x85\xc3\xa4", "e");
	assert_line(state, "{\"time\":\"",
	    "\",\"level\":\"info\",\"thread\":\"main\",\"event\":\"x\",\"a\":\"q\\\" "
	    "c\\\\d\\n\\t\\u0001\\u007f\\\\xFF\\u0085\xc3\xa4\",\"b\":\"e\"}\n");
	log_info("x", "a=%s", "exe\xe2\x80\xaetxt");
	assert_line(state, "{\"time\":\"",
	    "\",\"level\":\"info\",\"thread\":\"main\",\"event\":\"x\",\"a\":\"exe\\u202etxt\"}\n");
}

static void
value_that_looks_like_pairs_stays_one_value(void **state)
{
	static const char forged[] = "x\" event=node_down task=7";

	log_info("run", "name=\"%s\" task=%d", forged, 3);
	assert_line(state, "", " info  main      event=run name=\"x\\\" event=node_down task=7\" task=3\n");
	log_info("run", "name=%s task=%d", forged, 3);
	assert_line(state, "", " info  main      event=run name=\"x\\\" event=node_down task=7\" task=3\n");
	log_info("run", "error=\"%s\"", "relation \"a b\" does not exist");
	assert_line(state, "", " info  main      event=run error=\"relation \\\"a b\\\" does not exist\"\n");
	log_info("run", "a=\"\" b=%s c=\"in the format\"", "");
	assert_line(state, "", " info  main      event=run a=\"\" b=\"\" c=\"in the format\"\n");
}

static void
conversions_are_spelled_as_printf_does(void **state)
{
	log_info("x", "a=%d b=%u d=%" PRId64 " e=%zu i=%.*s j=%.2s k=%ld l=%llu m=%lld n=%%%s", -5, 7u,
	    INT64_MIN, (size_t)9, 2, "abc", "xyz", -1L, 18446744073709551615ULL, -7LL, "pc");
	assert_line(state, "",
	    " info  main      event=x a=-5 b=7 d=-9223372036854775808 e=9 i=ab j=xy k=-1 "
	    "l=18446744073709551615 m=-7 n=%pc\n");
	errno = ENOENT;
	log_info("x", "error=\"%m\"");
	assert_line(state, "", " info  main      event=x error=\"No such file or directory\"\n");
	log_info("x", "a=%d b=%5u c=%s", 1, 7u, "after one that is not known nothing can be trusted");
	assert_line(state, "", " info  main      event=x a=1 b=?\n");
}

static void
long_line_is_cut_but_whole(void **state)
{
	char *big = malloc(5001);

	assert_non_null(big);
	memset(big, '\x01', 5000); /* six bytes each in JSON */
	big[5000] = '\0';
	log_init(LOG_INFO, LOG_JSON, NULL);
	log_info("x", "small=1 big=\"%s\" after=2", big);
	assert_int_equal(written(state), 1);
	assert_true(strlen(line) <= 4096);
	assert_string_equal(strstr(line, ",\"small\""), ",\"small\":\"1\",\"cut\":\"1\"}\n");
	memset(big, 'x', 5000);
	log_info("x", "big=\"%s\" after=2", big);
	assert_int_equal(written(state), 1);
	assert_true(strlen(line) > 2000 && strlen(line) <= 4096);
	assert_non_null(strstr(line, "x\",\"after\":\"2\"}\n"));
	free(big);
}

static void
level_below_the_set_one_is_silent(void **state)
{
	log_init(LOG_WARN, LOG_TEXT, NULL);
	log_info("x", "a=1");
	assert_int_equal(written(state), 0);
	assert_false(log_enabled(LOG_INFO));
	assert_true(log_enabled(LOG_WARN));
}

static void
errno_is_preserved(void **state)
{
	struct capture *c = *state;
	int fd = dup(STDERR_FILENO);

	errno = ENOSPC;
	log_info("x", "a=1");
	assert_int_equal(errno, ENOSPC);
	close(STDERR_FILENO); /* write(2) fails */
	errno = ENOSPC;
	log_info("x", "a=1");
	assert_int_equal(errno, ENOSPC);
	dup2(fd, STDERR_FILENO);
	close(fd);
	assert_true(c->read_fd >= 0);
	assert_int_equal(written(state), 1);
}

static void *
log_once(void *arg)
{
	log_info("x", "a=1");
	return NULL;
}

static void
thread_says_its_own_name(void **state)
{
	pthread_t t;

	thread_start(&t, "worker 3", log_once, NULL);
	thread_join(t);
	assert_line(state, "", " info  worker 3  event=x a=1\n");
	log_info("x", "a=1");
	assert_line(state, "", " info  main      event=x a=1\n");
}

/* stderr is a pipe that nobody reads, and that holds a page. */
static int
block_stderr(void)
{
	int fd[2];

	assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
	assert_true(fcntl(fd[1], F_SETPIPE_SZ, 4096) >= 4096);
	dup2(fd[1], STDERR_FILENO);
	close(fd[1]);
	return fd[0];
}

/* Reads on until a text comes; returns how many lines there were before it. */
static int
lines_until(int fd, const char *text)
{
	static char all[1024 * 1024];
	static size_t len;
	char *found;
	int lines = 0;

	while ((found = strstr(all, text)) == NULL) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		assert_int_equal(poll(&p, 1, 15000), 1);
		n = read(fd, all + len, sizeof all - 1 - len);
		assert_true(n > 0);
		len += (size_t)n;
		all[len] = '\0';
	}
	for (char *c = all; c < found; c++)
		lines += *c == '\n';
	return lines;
}

static void
a_reader_that_stops_reading_stops_nobody_and_is_told_what_it_missed(void **state)
{
	int fd = block_stderr(), kept, dropped;
	int64_t at = clock_mono_us();
	struct err err = {0};
	char want[40];

	assert_int_equal(log_start(&err), RC_OK);
	for (int i = 0; i < 20000; i++)
		log_info("x", "n=%d", i);
	assert_true(clock_mono_us() - at < 10 * US_PER_S);
	kept = lines_until(fd, "event=log_dropped");
	dropped = 20000 - kept;
	assert_true(kept > 1000 && dropped > 1000);
	log_info("after", "n=%d", 1);
	snprintf(want, sizeof want, "event=log_dropped lines=%d", dropped);
	assert_int_equal(lines_until(fd, "event=after"), kept + 1);
	assert_int_equal(lines_until(fd, want), kept);
	assert_int_equal(log_dropped(), dropped);
	log_stop();
	close(fd);
}

static void
the_end_of_the_log_waits_for_its_reader_but_not_for_ever(void **state)
{
	struct err err = {0};
	int64_t at;
	int fd;

	assert_int_equal(log_start(&err), RC_OK);
	for (int i = 0; i < 100; i++)
		log_info("x", "n=%d", i);
	log_stop();
	assert_int_equal(written(state), 100);
	fd = block_stderr();
	assert_int_equal(log_start(&err), RC_OK);
	for (int i = 0; i < 100; i++)
		log_info("x", "n=%d", i);
	at = clock_mono_us();
	log_stop();
	assert_true(clock_mono_us() - at < 5 * US_PER_S);
	close(fd); /* the writer gets EPIPE and ends */
}

static void
error_text_is_cut_between_characters_and_may_quote_itself(void **state)
{
	struct err e = {.sqlstate = "12345"};
	char big[600];

	for (size_t i = 0; i + 2 < sizeof big; i += 2)
		memcpy(big + i, "\xc3\xa4", 3);
	assert_int_equal(err_set(&e, RC_BAD, "%s", big), RC_BAD);
	assert_string_equal(e.sqlstate, "");
	assert_int_equal(strlen(e.text), 510);
	assert_int_equal(err_set(&e, RC_LOST, "no %d", 1), RC_LOST);
	assert_int_equal(err_set(&e, RC_AGAIN, "again: %s", e.text), RC_AGAIN);
	err_prefix(&e, "at %s", "start");
	assert_string_equal(e.text, "at start: again: no 1");
	err_prefix(&e, "%s", big);
	assert_int_equal(strlen(e.text), 511); /* 255 letters and the colon */
	assert_int_equal(err_set(NULL, RC_FATAL, "x"), RC_FATAL);
	err_prefix(NULL, "x");
	assert_int_equal(err_set(&e, RC_BAD, "no"), RC_BAD);
	err_hint(&e, "Say %s", "yes");
	err_prefix(&e, "a");
	assert_string_equal(e.text, "a: no. Say yes");
	assert_string_equal(e.text + e.hint_at, "Say yes");
	err_hint(&e, "Or not");
	assert_string_equal(e.text, "a: no. Say yes");
	assert_int_equal(err_set(&e, RC_BAD, "%s", big), RC_BAD);
	err_hint(&e, "for which there is no room");
	assert_int_equal(e.hint_at, 0);
	err_hint(NULL, "x");
	assert_string_equal(rc_name(RC_UNKNOWN), "unknown");
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
	    TEST(text_line_has_time_level_thread_event_and_pairs),
	    TEST(json_line_has_the_same),
	    TEST(node_is_not_said_twice),
	    TEST(values_are_escaped),
	    TEST(value_that_looks_like_pairs_stays_one_value),
	    TEST(conversions_are_spelled_as_printf_does),
	    TEST(long_line_is_cut_but_whole),
	    TEST(level_below_the_set_one_is_silent),
	    TEST(errno_is_preserved),
	    TEST(thread_says_its_own_name),
	    TEST(a_reader_that_stops_reading_stops_nobody_and_is_told_what_it_missed),
	    TEST(error_text_is_cut_between_characters_and_may_quote_itself),
	    /* Last, because its writer is left behind. */
	    TEST(the_end_of_the_log_waits_for_its_reader_but_not_for_ever),
	};

	signal(SIGPIPE, SIG_IGN);

	return cmocka_run_group_tests(tests, NULL, NULL);
}
