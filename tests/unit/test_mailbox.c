/*
 * The mailbox, alone and between many threads.  No sleep: who must be waiting is found by the effect.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "base/thread.h"

struct letter {
	struct mail mail; /* first: a mail is its letter */
	int from, number;
};

static int64_t
soon(void)
{
	return clock_mono_us() + 20 * US_PER_S; /* a test that reaches it has failed */
}

static void
assert_empty(struct mailbox *m, enum rc why)
{
	struct mail *out = (struct mail *)&out;

	assert_int_equal(mailbox_pop_until(m, 0, &out), why);
	assert_null(out);
	assert_int_equal(mailbox_count(m), 0);
}

static void
mailbox_is_first_in_first_out(void **state)
{
	struct mailbox *m = mailbox_create();
	struct letter l[5];
	struct mail *out;

	for (int i = 0; i < 5; i++)
		mailbox_push(m, &l[i].mail);
	assert_int_equal(mailbox_count(m), 5);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(mailbox_pop_until(m, 0, &out), RC_OK);
		assert_ptr_equal(out, &l[i].mail);
		assert_null(out->next);
	}
	assert_empty(m, RC_AGAIN);
	mailbox_destroy(&m);
	assert_null(m);
}

static void
mailbox_takes_and_gives_chains_in_order(void **state)
{
	struct mailbox *m = mailbox_create();
	struct letter l[6];
	struct mail *out;

	mailbox_push(m, &l[0].mail);
	for (int i = 1; i < 5; i++)
		l[i].mail.next = i < 4 ? &l[i + 1].mail : NULL;
	mailbox_push_chain(m, &l[1].mail);
	mailbox_push_chain(m, NULL);
	mailbox_push(m, &l[5].mail);
	assert_int_equal(mailbox_count(m), 6);
	assert_int_equal(mailbox_pop_all_until(m, 0, &out), RC_OK);
	for (int i = 0; i < 6; i++, out = out->next)
		assert_ptr_equal(out, &l[i].mail);
	assert_null(out);
	assert_empty(m, RC_AGAIN);
	mailbox_push(m, &l[3].mail); /* the end is found again after it was emptied */
	assert_int_equal(mailbox_pop_until(m, 0, &out), RC_OK);
	assert_ptr_equal(out, &l[3].mail);
	mailbox_destroy(&m);
}

static void
mailbox_pop_waits_until_its_deadline(void **state)
{
	struct mailbox *m = mailbox_create();
	int64_t until = clock_mono_us() + 30 * US_PER_MS;
	struct mail *out;

	assert_int_equal(mailbox_pop_until(m, until, &out), RC_AGAIN);
	assert_true(clock_mono_us() >= until);
	assert_int_equal(mailbox_pop_until(m, until, &out), RC_AGAIN); /* passed already */
	mailbox_destroy(&m);
}

static void
mailbox_closed_gives_what_is_left(void **state)
{
	struct mailbox *m = mailbox_create();
	struct letter l[2];
	struct mail *out;

	mailbox_push(m, &l[0].mail);
	mailbox_close(m);
	mailbox_push(m, &l[1].mail);
	assert_int_equal(mailbox_pop_until(m, CLOCK_NEVER, &out), RC_OK);
	assert_ptr_equal(out, &l[0].mail);
	assert_int_equal(mailbox_pop_all_until(m, CLOCK_NEVER, &out), RC_OK);
	assert_ptr_equal(out, &l[1].mail);
	assert_int_equal(mailbox_pop_until(m, CLOCK_NEVER, &out), RC_CLOSED);
	assert_int_equal(mailbox_pop_all_until(m, CLOCK_NEVER, &out), RC_CLOSED);
	assert_empty(m, RC_CLOSED);
	mailbox_destroy(&m);
}

static void
mailbox_poke_is_remembered_and_comes_after_mail(void **state)
{
	struct mailbox *m = mailbox_create();
	struct letter l;
	struct mail *out;

	mailbox_poke(m);
	mailbox_push(m, &l.mail);
	assert_int_equal(mailbox_pop_until(m, CLOCK_NEVER, &out), RC_OK);
	assert_int_equal(mailbox_pop_until(m, CLOCK_NEVER, &out), RC_AGAIN); /* would hang without the poke */
	mailbox_poke(m);
	mailbox_poke(m);
	assert_empty(m, RC_AGAIN); /* who does not wait eats no poke */
	assert_int_equal(mailbox_pop_until(m, CLOCK_NEVER, &out), RC_AGAIN);
	assert_int_equal(mailbox_pop_all_until(m, CLOCK_NEVER, &out), RC_AGAIN);
	mailbox_poke(m);
	mailbox_close(m);
	assert_int_equal(mailbox_pop_until(m, CLOCK_NEVER, &out), RC_CLOSED);
	mailbox_destroy(&m);
}

enum { PRODUCERS = 4, CONSUMERS = 4, EACH = 4000, CHAIN = 5 };

struct post {
	struct mailbox *m;
	atomic_int next_producer;
	struct letter letter[PRODUCERS][EACH];
	atomic_int seen[PRODUCERS][EACH];
	atomic_bool out_of_order;
};

/* One by one and in chains by turns. */
static void *
produce(void *arg)
{
	struct post *p = arg;
	int me = atomic_fetch_add(&p->next_producer, 1);
	struct letter *l = p->letter[me];

	for (int i = 0; i < EACH; i++) {
		bool chained = i / CHAIN % 2 == 1;

		l[i].from = me;
		l[i].number = i;
		if (!chained)
			mailbox_push(p->m, &l[i].mail);
		else
			l[i].mail.next = i % CHAIN == CHAIN - 1 ? NULL : &l[i + 1].mail;
		if (chained && i % CHAIN == CHAIN - 1)
			mailbox_push_chain(p->m, &l[i - CHAIN + 1].mail);
	}
	return NULL;
}

static void
receive(struct post *p, const struct mail *first, int *last)
{
	for (; first != NULL; first = first->next) {
		const struct letter *l = (const struct letter *)first;

		atomic_fetch_add(&p->seen[l->from][l->number], 1);
		if (l->number <= last[l->from])
			atomic_store(&p->out_of_order, true);
		last[l->from] = l->number;
	}
}

static void *
consume(void *arg)
{
	struct post *p = arg;
	int last[PRODUCERS] = {-1, -1, -1, -1};
	struct mail *out;

	for (int round = 0;; round++) {
		int64_t until = round % 3 == 0 ? CLOCK_NEVER : clock_mono_us() + round % 7;
		enum rc rc = round % 2 == 0 ? mailbox_pop_until(p->m, until, &out)
					    : mailbox_pop_all_until(p->m, until, &out);

		if (rc == RC_CLOSED)
			return NULL;
		if (rc == RC_OK)
			receive(p, out, last);
	}
}

static void
mailbox_between_many_threads_loses_and_doubles_nothing(void **state)
{
	struct post *p = calloc(1, sizeof *p);
	pthread_t producer[PRODUCERS], consumer[CONSUMERS];

	assert_non_null(p);
	p->m = mailbox_create();
	for (int i = 0; i < CONSUMERS; i++)
		thread_start(&consumer[i], "consumer", consume, p);
	for (int i = 0; i < PRODUCERS; i++)
		thread_start(&producer[i], "producer", produce, p);
	for (int i = 0; i < 100; i++)
		mailbox_poke(p->m);
	for (int i = 0; i < PRODUCERS; i++)
		thread_join(producer[i]);
	mailbox_close(p->m);
	for (int i = 0; i < CONSUMERS; i++)
		thread_join(consumer[i]);
	mailbox_destroy(&p->m);
	for (int i = 0; i < PRODUCERS; i++)
		for (int k = 0; k < EACH; k++)
			assert_int_equal(atomic_load(&p->seen[i][k]), 1);
	assert_false(
	    atomic_load(&p->out_of_order)); /* a consumer sees each producer's letters in their order */
	free(p);
}

struct waiters {
	struct mailbox *m;
	struct mailbox *answers;
};

struct answer {
	struct mail mail;
	enum rc rc;
};

static void *
wait_once(void *arg)
{
	struct waiters *w = arg;
	struct answer *a = calloc(1, sizeof *a);
	struct mail *out;

	a->rc = mailbox_pop_until(w->m, soon(), &out);
	mailbox_push(w->answers, &a->mail);
	return NULL;
}

/* Whether a waiter sleeps already or comes later makes no difference: each poke ends exactly one wait. */
static void
mailbox_each_poke_ends_one_wait(void **state)
{
	struct waiters w = {.m = mailbox_create(), .answers = mailbox_create()};
	pthread_t t[3];
	struct mail *out;

	for (int i = 0; i < 3; i++)
		thread_start(&t[i], "waiter", wait_once, &w);
	mailbox_poke(w.m);
	mailbox_poke(w.m);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(mailbox_pop_until(w.answers, soon(), &out), RC_OK);
		assert_int_equal(((struct answer *)out)->rc, RC_AGAIN);
		free(out);
	}
	mailbox_close(w.m);
	assert_int_equal(mailbox_pop_until(w.answers, soon(), &out), RC_OK);
	assert_int_equal(((struct answer *)out)->rc, RC_CLOSED);
	free(out);
	for (int i = 0; i < 3; i++)
		thread_join(t[i]);
	mailbox_destroy(&w.m);
	mailbox_destroy(&w.answers);
}

struct echo {
	struct mailbox *there, *back;
};

static void *
echo(void *arg)
{
	struct echo *e = arg;
	struct mail *out;

	while (mailbox_pop_until(e->there, soon(), &out) == RC_OK)
		mailbox_push(e->back, out);
	return NULL;
}

/* Each round both sides may be asleep: a lost wake-up would run into the deadline. */
static void
mailbox_ping_pong_loses_no_wake_up(void **state)
{
	struct echo e = {.there = mailbox_create(), .back = mailbox_create()};
	struct letter l;
	struct mail *out;
	pthread_t t;

	thread_start(&t, "echo", echo, &e);
	for (int i = 0; i < 2000; i++) {
		mailbox_push(e.there, &l.mail);
		assert_int_equal(mailbox_pop_until(e.back, soon(), &out), RC_OK);
		assert_ptr_equal(out, &l.mail);
	}
	mailbox_close(e.there);
	thread_join(t);
	mailbox_destroy(&e.there);
	mailbox_destroy(&e.back);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(mailbox_is_first_in_first_out),
	    cmocka_unit_test(mailbox_takes_and_gives_chains_in_order),
	    cmocka_unit_test(mailbox_pop_waits_until_its_deadline),
	    cmocka_unit_test(mailbox_closed_gives_what_is_left),
	    cmocka_unit_test(mailbox_poke_is_remembered_and_comes_after_mail),
	    cmocka_unit_test(mailbox_each_poke_ends_one_wait),
	    cmocka_unit_test(mailbox_ping_pong_loses_no_wake_up),
	    cmocka_unit_test(mailbox_between_many_threads_loses_and_doubles_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
