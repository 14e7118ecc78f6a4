/* A worker, by hand: what it executes, what it does not, and what it says of the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "node/runs/outcome.h"
#include "node/runs/worker.h"
#include "parts.h"

static struct parts p;
static struct worker *w;

static void
begin(void)
{
	struct err err;

	hand_start();
	fake_start(7);
	parts_make(&p);
	parts_register(&p, 11, 3600 * US_PER_S);
	p.kind = "noop";
	assert_int_equal(exec_set_create("noop", NULL, &p.n.execs, &err), RC_OK);
	w = worker_create(&p.n);
}

static void
end(void)
{
	mailbox_close(p.n.run_queue);
	assert_false(worker_round(w)); /* lets go of what executors keep */
	worker_destroy(&w);
	parts_end(&p);
}

static void
work(void)
{
	assert_true(HAND_ROUND(0, worker_round(w)));
	hand.round = false;
}

static struct fake_task *
started_for(int64_t due_mono_us)
{
	struct fake_task *t = parts_claimed(&p, due_mono_us, false);

	parts_boss(&p);
	parts_starter(&p);
	return t;
}

static struct fake_task *
started(void)
{
	return started_for(clock_mono_us());
}

static int64_t
executed(void)
{
	return atomic_load(&p.n.count[COUNT_STARTED]);
}

static void
a_run_is_executed_and_its_end_is_written(void **unused)
{
	begin();
	struct fake_task *t = started();

	work();
	assert_int_equal(executed(), 1);
	parts_finisher(&p);
	parts_boss(&p);
	assert_int_equal(t->status, FAKE_GONE);
	assert_int_equal(p.n.boss->n_in_hand, 0);
	assert_int_equal(p.n.boss->crew[0].idle, 4);
	end();
}

static void
without_a_lease_nothing_is_executed_and_nothing_is_said_of_it(void **unused)
{
	begin();
	struct fake_task *t = started();

	lease_drop(&p.n.lease);
	work();
	parts_finisher(&p);
	parts_boss(&p);
	assert_int_equal(executed(), 0);
	assert_int_equal(t->status, FAKE_RUNNING); /* recovery finds it */
	assert_int_equal(fake.calls[FAKE_FINISH], 0);
	assert_int_equal(p.n.boss->n_in_hand, 0);
	end();
}

/* In nanoseconds that is more than a number has room for: the sanitizer of the suite asan looks. */
static void
a_run_that_was_due_a_thousand_years_ago_is_executed_at_once(void **unused)
{
	const int64_t years_us = (int64_t)1000 * 365 * 86400 * US_PER_S;

	begin();
	started_for(clock_mono_us() - years_us);
	work();
	assert_int_equal(executed(), 1);
	end();
}

static void
what_was_started_before_a_fence_is_not_executed_after_it(void **unused)
{
	begin();
	started();
	atomic_store(&p.n.incarnation, 12);
	work();
	assert_int_equal(executed(), 0);
	end();
}

static void
a_kind_that_the_node_does_not_have_goes_back_and_its_attempt_does_not_count(void **unused)
{
	begin();
	p.kind = "sql"; /* it was edited between claim and start */
	struct fake_task *t = started();

	work();
	parts_finisher(&p);
	assert_int_equal(executed(), 0);
	assert_int_equal(t->status, FAKE_SCHEDULED);
	assert_int_equal(fake.n_history, 0);
	end();
}

static void
a_unit_is_one_message_and_its_worker_is_free_before_it_is_written(void **unused)
{
	begin();
	for (int i = 0; i < 5; i++) { /* started by their claim */
		struct fake_task *t = fake_add(fake_now_us());
		struct run *r = run_create(t->id, ++t->version, 11);

		t->status = FAKE_RUNNING;
		t->incarnation = 11;
		r->due_mono_us = clock_mono_us();
		r->task.kind = xstrdup("noop");
		r->task.owner = xstrdup("somebody");
		r->started = true;
		boss_give(p.n.boss, r, (struct room){0});
	}
	parts_boss(&p);
	assert_int_equal(mailbox_count(p.n.run_queue), 1);
	assert_int_equal(p.n.boss->crew[0].idle, 3);
	work();
	assert_int_equal(executed(), 5);
	assert_int_equal(mailbox_count(p.n.finish_queue), 5);
	parts_boss(&p);
	assert_int_equal(p.n.boss->crew[0].idle, 4);
	parts_finisher(&p);
	parts_boss(&p);
	assert_int_equal(fake_count(FAKE_GONE), 5);
	assert_int_equal(p.n.boss->n_in_hand, 0);
	end();
}

static void
the_outcome_says_how_it_ended_and_a_success_is_one_whoever_stopped_it(void **unused)
{
	static const struct {
		bool succeeded, not_started;
		enum pgrab_stop stop;
		enum outcome outcome;
	} ends[] = {{true, false, PGRAB_STOP_NONE, OUTCOME_SUCCEEDED},
	    {true, false, PGRAB_STOP_CANCEL, OUTCOME_SUCCEEDED},
	    {true, false, PGRAB_STOP_FENCED, OUTCOME_SUCCEEDED},
	    {false, false, PGRAB_STOP_NONE, OUTCOME_FAILED},
	    {false, true, PGRAB_STOP_TIMEOUT, OUTCOME_NOT_STARTED},
	    {false, false, PGRAB_STOP_TIMEOUT, OUTCOME_TIMED_OUT},
	    {false, false, PGRAB_STOP_CANCEL, OUTCOME_CANCELLED},
	    {false, false, PGRAB_STOP_SHUTDOWN, OUTCOME_LOST},
	    {false, false, PGRAB_STOP_FENCED, OUTCOME_LOST}};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		struct run *r = run_create(1, 1, 1);
		struct pgrab_result res = {.size = sizeof res,
		    .succeeded = ends[i].succeeded,
		    .not_started = ends[i].not_started,
		    .error = "why"};

		outcome_take(r, ends[i].stop, &res);
		assert_int_equal(r->end.outcome, ends[i].outcome);
		assert_int_equal(r->end.error == NULL, ends[i].succeeded);
		run_free(r);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_run_is_executed_and_its_end_is_written),
	    cmocka_unit_test(without_a_lease_nothing_is_executed_and_nothing_is_said_of_it),
	    cmocka_unit_test(a_run_that_was_due_a_thousand_years_ago_is_executed_at_once),
	    cmocka_unit_test(what_was_started_before_a_fence_is_not_executed_after_it),
	    cmocka_unit_test(a_kind_that_the_node_does_not_have_goes_back_and_its_attempt_does_not_count),
	    cmocka_unit_test(a_unit_is_one_message_and_its_worker_is_free_before_it_is_written),
	    cmocka_unit_test(the_outcome_says_how_it_ended_and_a_success_is_one_whoever_stopped_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
