/* One handler process as the node sees it, without a process: the test has the other end of its socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "handler/pool_priv.h"

#define MESSAGE 50000

/* It reads 64 KiB a turn, and is given more whenever there is room: it never has read everything. */
static void
one_that_lags_keeps_only_what_it_has_not_read(void **state)
{
	static char message[MESSAGE], in[65536];
	struct process p = {.state = PROCESS_READY, .at_once = 1000};
	size_t given = 0, got = 0;
	int end[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
	memset(message, 'x', sizeof message);
	p.talk_fd = end[0];
	TAILQ_INIT(&p.flights);
	for (int turn = 0; turn < 500; turn++) {
		ssize_t n;

		for (; process_room(&p); given += MESSAGE) {
			for (size_t i = 0; i < MESSAGE; i += 1000)
				memset(message + i, 'a' + (char)((given + i) / 1000 % 26), 1000);
			buf_add(&p.out, message, MESSAGE);
		}
		process_write(&p);
		n = recv(end[1], in, sizeof in, MSG_DONTWAIT);
		assert_true(n > 0);
		for (ssize_t i = 0; i < n; i++, got++)
			assert_int_equal(in[i], 'a' + (char)(got / 1000 % 26));
	}
	assert_true(given > 16 * 1024 * 1024);
	assert_true(p.out.cap < 1024 * 1024);
	buf_fini(&p.out);
	close(end[0]);
	close(end[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_that_lags_keeps_only_what_it_has_not_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
