/* One handler process as the node sees it, without a process: the test has the other end of its socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "handler/pool_priv.h"

#define MESSAGE 50000
#define RUNS    2

/* What the host was told of the end of each run. */
static struct ended {
	enum outcome outcome;
	int64_t retry_us;
	char error[600];
} ended[RUNS + 1];

static void
take_end(void *ctx, struct run *r, enum outcome outcome, const struct pgrab_result *result)
{
	struct ended *e = &ended[r->id];

	(void)ctx;
	*e = (struct ended){.outcome = outcome, .retry_us = r->end.retry_us};
	memcpy(e->error, result->error, strnlen(result->error, sizeof e->error - 1));
	run_free(r);
}

static void
ignore_slots(void *ctx, size_t pool, int more)
{
	(void)ctx;
	(void)pool;
	(void)more;
}

static void
ignore_change(void *ctx)
{
	(void)ctx;
}

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

/* A process that has RUNS tasks and was found not to answer; its end is reported, and who caused it. */
static void
die(enum keeper_why why)
{
	static struct pools all = {
	    .host = {.end = take_end, .slots = ignore_slots, .changed = ignore_change}, .n = 1};
	static const char *const argv[] = {"program", NULL};
	struct pool_setup set = {.name = "w", .argv = argv};
	struct process process[2] = {0}, *p = &process[0];
	struct pool pool = {.all = &all, .set = &set, .process = process, .n_processes = 2};
	struct pollfd news[NEWS__COUNT] = {[NEWS_RUN] = {.revents = POLLIN}};
	struct keeper_msg m = {.event = KEEPER_EXITED, .value = 9, .why = (int32_t)why};
	int run[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, run), 0);
	process_init(p, &pool);
	p->run.fd = run[0];
	p->state = PROCESS_READY;
	p->at_once = RUNS;
	for (int64_t id = 1; id <= RUNS; id++) {
		struct run *r = run_create(id, 1, 1);

		r->task.kind = xstrdup("w");
		r->task.name = xstrdup("");
		r->task.command = xstrdup("");
		process_give(p, r);
	}
	process_fault(p, "it has not answered");
	assert_int_equal(send(run[1], &m, sizeof m, 0), sizeof m);
	process_news(p, news, 0);
	assert_int_equal(p->n_flights, 0);
	close(run[1]);
	free(pool.suspects.id);
}

/* Under load a process that the shim ends with the lease looks as if it had a fault of its own. */
static void
with_the_lease_goes_every_fault(void **state)
{
	(void)state;
	die(KEEPER_BY_LEASE);
	for (int id = 1; id <= RUNS; id++) {
		assert_int_equal(ended[id].outcome, OUTCOME_LOST);
		assert_int_equal(ended[id].retry_us, RETRY_DEFAULT);
		assert_string_equal(
		    ended[id].error, "its process ended: stopped because the node lost its lease");
	}
}

static void
a_fault_that_came_first_costs_no_attempt(void **state)
{
	(void)state;
	die(KEEPER_BY_WORKER);
	for (int id = 1; id <= RUNS; id++) {
		assert_int_equal(ended[id].outcome, OUTCOME_LOST);
		assert_int_equal(ended[id].retry_us, RETRY_UNCOUNTED);
		assert_string_equal(ended[id].error, "its process was killed, and which of its 2 tasks did "
						     "that is not known: it has not answered");
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(one_that_lags_keeps_only_what_it_has_not_read),
	    cmocka_unit_test(with_the_lease_goes_every_fault),
	    cmocka_unit_test(a_fault_that_came_first_costs_no_attempt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
