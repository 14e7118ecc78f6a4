/* The heartbeat, by hand: how long the lease is, when the node stops by itself, and how it comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "parts.h"
#include "random.h"

static struct parts p;
static int64_t fenced_us;      /* when the node was first seen to act no more; 0: never */
static int64_t server_back_us; /* the server answers again from then on */
static int64_t stubborn_us;    /* until then runs do not end when they are told to */

static int64_t
incarnation(void)
{
	return atomic_load(&p.n.incarnation);
}

/* While the heartbeat waits. */
static void
others(void *ctx)
{
	if (fenced_us == 0 && incarnation() == 0)
		fenced_us = clock_mono_us();
	if (fake.down && clock_mono_us() >= server_back_us)
		fake.down = false;
	parts_boss(&p);
	parts_starter(&p);
	parts_begin_work(&p);
	for (size_t i = p.n_at_work; clock_mono_us() >= stubborn_us && i-- > 0;) {
		if (atomic_load(&p.at_work[i]->stop.why) != PGRAB_STOP_NONE)
			parts_end_work(&p, i, OUTCOME_LOST);
	}
	parts_finisher(&p);
	parts_boss(&p);
}

static void
begin(void)
{
	hand_start();
	fake_start(random_below(1u << 30) + 1);
	parts_make(&p);
	parts_heartbeat(&p);
	hand.others = others;
	fenced_us = server_back_us = stubborn_us = 0;
}

/* As the heartbeat itself wants it. */
static void
beat(void)
{
	assert_true(HAND_ROUND(CLOCK_NEVER, heartbeat_round(p.heartbeat)));
	hand.round = false;
}

static struct fake_node *
row(void)
{
	return fake_node(PART_NAME);
}

/* A task of ours, at work. */
static struct run *
put_to_work(void)
{
	parts_claimed(&p, clock_mono_us(), false);
	others(NULL);
	assert_true(p.n_at_work > 0);
	return p.at_work[p.n_at_work - 1];
}

static void
server_away_for(int64_t us)
{
	fake.down = true;
	server_back_us = clock_mono_us() + us;
}

static void
slow_beat(enum fake_call what)
{
	if (what == FAKE_BEAT)
		hand_turn(300 * US_PER_MS);
}

static void
the_lease_counts_from_before_the_beat_was_sent(void **unused)
{
	begin();
	assert_true(incarnation() != 0);
	fake.before = fake.after = slow_beat;
	for (int i = 0; i < 3; i++) {
		beat();
		/* The answer came 600 ms after it was sent; the pause behind a beat is not part of it. */
		assert_true(
		    lease_until(&p.n.lease) <= clock_boot_us() - 600 * US_PER_MS + p.set.fence_after_us);
		assert_true(lease_holds(&p.n.lease, clock_boot_us()));
	}
	assert_int_equal(row()->beat, 4); /* one from the registration */
	parts_end(&p);
}

static void
without_an_answer_the_node_stops_when_its_lease_ends_and_not_before(void **unused)
{
	begin();
	beat();
	struct run *r = put_to_work();
	int64_t old = incarnation(), ends = lease_until(&p.n.lease);

	atomic_store(&p.n.idle_us, 1);
	server_away_for(60 * US_PER_S);
	while (fenced_us == 0) {
		assert_int_equal(incarnation(), old);
		assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_NONE);
		assert_true(clock_boot_us() <= ends);
		beat();
	}
	assert_int_equal(fenced_us, ends);
	assert_true(incarnation() != 0 && incarnation() != old);
	assert_true(atomic_load(&p.n.idle_us) > 1);
	assert_true(clock_mono_us() >= server_back_us);
	assert_int_equal(atomic_load(&p.n.count[COUNT_FENCES]), 1);
	assert_int_equal(p.n_at_work, 0);
	assert_true(lease_holds(&p.n.lease, clock_boot_us()));
	parts_end(&p);
}

static void
too_slow_beat(enum fake_call what)
{
	if (what == FAKE_BEAT)
		hand_turn(p.set.fence_after_us + 1);
}

static void
an_answer_that_comes_after_the_lease_is_over_does_not_renew_it(void **unused)
{
	begin();
	int64_t old = incarnation();

	beat();
	fake.after = too_slow_beat;
	beat();
	fake.after = NULL;
	assert_int_equal(atomic_load(&p.n.count[COUNT_FENCES]), 1);
	assert_true(incarnation() != 0 && incarnation() != old);
	parts_end(&p);
}

static void
a_node_that_was_declared_dead_stops_at_once(void **unused)
{
	begin();
	beat();
	int64_t old = incarnation(), next = p.heartbeat->next_us;

	put_to_work();
	row()->up = false;
	beat();
	assert_int_equal(fenced_us, next);
	assert_int_equal(p.n_at_work, 0);
	assert_true(incarnation() != old && row()->up);
	parts_end(&p);
}

static void
a_machine_that_slept_through_its_lease_comes_back_as_another(void **unused)
{
	begin();
	beat();
	int64_t old = incarnation();

	/* the server answers, but what it covered may be others' by now */
	hand.boot_ahead_us += 3600 * US_PER_S;
	beat();
	assert_true(incarnation() != old);
	assert_int_equal(atomic_load(&p.n.count[COUNT_FENCES]), 1);
	assert_true(lease_holds(&p.n.lease, clock_boot_us()));
	parts_end(&p);
}

static void
a_server_that_went_back_in_time_ends_the_incarnation_unless_it_was_synchronous(void **unused)
{
	for (int sync = 0; sync < 2; sync++) {
		begin();
		fake.server.sync = sync;
		beat();
		int64_t old = incarnation();

		fake.generation++; /* the same server, another connection */
		beat();
		assert_int_equal(incarnation(), old);
		fake.generation++;
		strcpy(fake.server.timeline, "2");
		beat();
		assert_int_equal(incarnation() == old, sync);
		parts_end(&p);
	}
	begin();
	for (int i = 0; i < 5; i++)
		beat();
	int64_t old = incarnation();

	fake.generation++;
	row()->beat -= 3; /* restored from before */
	beat();
	assert_true(incarnation() != old);
	parts_end(&p);
}

static void
a_registration_whose_answer_was_lost_is_looked_up(void **unused)
{
	hand_start();
	fake_start(7);
	parts_make(&p);
	fake.next[FAKE_REGISTER] = ANSWER_LOST_DONE;
	parts_heartbeat(&p);
	assert_int_equal(fake.calls[FAKE_REGISTER], 1);
	assert_int_equal(incarnation(), row()->incarnation);
	parts_end(&p);
}

/* Another process took the name while this one was away, and beats until `rival_ends_us`. */
static int64_t rival_ends_us;

static void
others_and_rival(void *ctx)
{
	static int64_t beat_us;

	if (fenced_us == 0 && incarnation() == 0)
		row()->incarnation = 99;
	if (row()->incarnation == 99 && clock_mono_us() < rival_ends_us &&
	    clock_mono_us() >= beat_us + US_PER_S) {
		row()->beat++;
		beat_us = clock_mono_us();
	}
	others(ctx);
}

static void
a_name_that_another_node_took_is_left_to_it_until_that_one_is_silent(void **unused)
{
	begin();
	beat();
	hand.others = others_and_rival;
	row()->incarnation = 99;
	rival_ends_us = clock_mono_us() + 60 * US_PER_S;
	beat();
	assert_true(clock_mono_us() >= rival_ends_us + row()->dead_after_us - 2 * US_PER_S);
	assert_true(clock_mono_us() <= rival_ends_us + row()->dead_after_us + 5 * US_PER_S);
	assert_true(incarnation() != 0 && incarnation() == row()->incarnation);
	parts_end(&p);
}

/* The heartbeat is the first to find that the server is back. */
static void
no_outcome_may_wait(enum fake_call what)
{
	if (what == FAKE_CONNECT && fenced_us != 0 && clock_mono_us() > fenced_us + 10 * US_PER_S)
		fake.down = false;
	if (what == FAKE_REGISTER)
		assert_int_equal(atomic_load(&p.n.ended), 0);
}

static void
what_ended_while_the_server_was_away_counts_before_the_old_incarnation_is_given_up(void **unused)
{
	begin();
	beat();
	struct run *r = put_to_work();
	int64_t id = r->id, old = incarnation();

	server_away_for(3600 * US_PER_S);
	fake.before = no_outcome_may_wait;
	parts_end_work(&p, 0, OUTCOME_SUCCEEDED);
	while (fenced_us == 0)
		beat();
	assert_int_equal(fake.n_history, 1);
	assert_int_equal(fake.history[0].incarnation, old);
	assert_int_equal(fake.history[0].outcome, OUTCOME_SUCCEEDED);
	assert_int_equal(fake_task(id)->status, FAKE_GONE);
	assert_true(incarnation() != old);
	parts_end(&p);
}

static void
nothing_may_be_at_work(enum fake_call what)
{
	if (what == FAKE_REGISTER)
		assert_int_equal(p.n_at_work, 0);
}

static void
no_new_incarnation_while_something_of_the_old_one_still_runs(void **unused)
{
	begin();
	beat();
	put_to_work();
	row()->up = false;
	stubborn_us = p.heartbeat->next_us + 3 * US_PER_S;
	fake.before = nothing_may_be_at_work;
	beat();
	assert_true(clock_mono_us() >= stubborn_us);
	assert_true(incarnation() != 0);
	parts_end(&p);
}

static int64_t *shared; /* what the process that ends has seen: its fence, and the last moment */

static void
others_and_witness(void *ctx)
{
	others(ctx);
	shared[0] = fenced_us;
	shared[1] = clock_mono_us();
	if (fenced_us != 0 && clock_mono_us() > fenced_us + 60 * US_PER_S)
		_exit(2);
}

static void
a_run_that_does_not_end_ends_the_process_before_others_may_begin_it(void **unused)
{
	int status = 0;
	pid_t pid;

	shared = mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	if ((pid = fork()) == 0) {
		begin();
		beat();
		put_to_work();
		row()->up = false;
		stubborn_us = CLOCK_NEVER;
		hand.others = others_and_witness;
		beat();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	/* fence_after 5 s, dead_after 10 s: others may begin it 5 s after the fence, and there is time left.
	 * */
	assert_in_range(shared[1] - shared[0], 4 * US_PER_S, 5 * US_PER_S - 400 * US_PER_MS);
	munmap(shared, 2 * sizeof *shared);
}

static void
a_node_with_nothing_in_hand_beats_half_as_often(void **unused)
{
	begin();
	for (int64_t fence_s = 3; fence_s <= 5; fence_s += 2) {
		p.set.fence_after_us = fence_s * US_PER_S;
		beat();
		int64_t idle = p.heartbeat->next_us - clock_mono_us();

		/* A beat that is late by as much again does not fence it. */
		assert_in_range(idle, fence_s == 3 ? 1400 * US_PER_MS : 1900 * US_PER_MS,
		    fence_s == 3 ? 1500 * US_PER_MS : 2000 * US_PER_MS);
	}
	put_to_work();
	beat();
	assert_in_range(p.heartbeat->next_us - clock_mono_us(), 900 * US_PER_MS, US_PER_S);
	parts_end(&p);
}

static void
wishes_are_obeyed_with_the_next_beat(void **unused)
{
	begin();
	beat();
	struct run *r = put_to_work();

	stubborn_us = CLOCK_NEVER;
	fake.wishes = (struct node_wishes){.drain = true, .n_stops = 1};
	fake.wishes.stop[0].id = r->id;
	fake.wishes.stop[0].version = r->version;
	beat();
	parts_boss(&p);
	assert_int_equal(atomic_load(&r->stop.why), PGRAB_STOP_CANCEL);
	assert_true(p.n.boss->draining);
	fake.wishes = (struct node_wishes){0};
	beat();
	parts_boss(&p);
	assert_false(p.n.boss->draining);
	parts_end(&p);
}

static void
labels_of_the_database_count_over_our_own(void **unused)
{
	const char *here = "{\"zone\": \"us\"}", *first;

	begin();
	beat();
	first = node_ability(&p.n).labels;
	memcpy(fake.wishes.labels, here, strlen(here) + 1);
	p.heartbeat->next_others_us = CLOCK_NEVER;
	beat();
	assert_string_equal(node_ability(&p.n).labels, here);
	assert_true(p.heartbeat->next_us <= clock_mono_us()); /* the others are read at once */
	beat();
	assert_true(p.heartbeat->next_us > clock_mono_us() + 100 * US_PER_MS);
	fake.wishes = (struct node_wishes){0};
	beat();
	assert_ptr_equal(node_ability(&p.n).labels, first);
	parts_end(&p);
}

static size_t
nodes_seen(void)
{
	struct cluster *c = cluster_slot_get(&p.n.cluster);
	size_t n = c->view.n_nodes;

	cluster_put(&p.n.cluster, c);
	return n;
}

static void
who_joins_is_read_soon_and_who_leaves_owns_nothing_at_once(void **unused)
{
	struct fake_node *other;
	int64_t heard_us;

	begin();
	beat();
	other = fake_node("other");
	assert_int_equal(nodes_seen(), 1);
	heard_us = clock_mono_us();
	heartbeat_hear_joins(p.heartbeat);
	beat(); /* hears it */
	beat();
	assert_int_equal(nodes_seen(), 2);
	assert_true(clock_mono_us() - heard_us < p.n.set->heartbeat_us / 2);
	heard_us = clock_mono_us();
	heartbeat_hear(p.heartbeat, other->id, MEMBER_LEAVES);
	beat();
	assert_int_equal(nodes_seen(), 1);
	assert_true(clock_mono_us() == heard_us);
	beat(); /* it did not */
	assert_int_equal(nodes_seen(), 2);
	parts_end(&p);
}

/* Each change of the picture is work for the whole node. */
static void
who_leaves_right_after_another_waits_for_a_reading(void **unused)
{
	int64_t first_us, gap_us;

	begin();
	fake_node("first");
	fake_node("second");
	beat();
	p.heartbeat->next_others_us = CLOCK_NEVER;
	assert_int_equal(nodes_seen(), 3);
	gap_us = heartbeat_others_gap(p.heartbeat);
	heartbeat_hear(p.heartbeat, fake_node("first")->id, MEMBER_LEAVES);
	beat();
	first_us = clock_mono_us();
	assert_int_equal(nodes_seen(), 2);
	heartbeat_hear(p.heartbeat, fake_node("second")->id, MEMBER_LEAVES);
	beat();
	assert_int_equal(nodes_seen(), 2);
	fake_node("first")->up = fake_node("second")->up = false;
	beat();
	assert_int_equal(nodes_seen(), 1);
	assert_true(clock_mono_us() == first_us + gap_us);
	parts_end(&p);
}

static void
more_news_than_there_is_room_for_take_a_reading(void **unused)
{
	begin();
	beat();
	fake_node("other");
	p.heartbeat->next_others_us = CLOCK_NEVER;
	for (int i = 0; i <= HEARD_MAX; i++)
		heartbeat_hear(p.heartbeat, 1000 + i, MEMBER_LEAVES);
	beat(); /* hears them */
	beat();
	assert_int_equal(nodes_seen(), 2);
	assert_true(p.heartbeat->members.last_look_us == clock_mono_us());
	parts_end(&p);
}

/* Whoever missed a picture must not take the last one for the one before. */
static void
who_has_left_and_is_back_is_another_picture(void **unused)
{
	struct cluster *before, *after;

	begin();
	fake_node("other");
	beat();
	before = cluster_slot_get(&p.n.cluster);
	heartbeat_hear(p.heartbeat, fake_node("other")->id, MEMBER_LEAVES);
	beat();
	assert_int_equal(nodes_seen(), 1);
	heartbeat_hear_joins(p.heartbeat);
	beat(); /* hears it */
	beat();
	assert_int_equal(nodes_seen(), 2);
	after = cluster_slot_get(&p.n.cluster);
	assert_false(cluster_same_shape(after, before));
	cluster_put(&p.n.cluster, before);
	before = after;
	p.heartbeat->next_others_us = 0;
	beat();
	after = cluster_slot_get(&p.n.cluster);
	assert_true(cluster_same_shape(after, before));
	cluster_put(&p.n.cluster, before);
	cluster_put(&p.n.cluster, after);
	parts_end(&p);
}

static void
what_the_starter_could_not_hand_back_goes_with_the_beats_and_what_is_locked_behind_the_rest(void **unused)
{
	begin();
	beat();
	for (int i = 0; i < 3; i++)
		parts_claimed(&p, clock_mono_us(), false);
	fake_task(1)->locked = true;
	for (int i = 1; i <= 3; i++) {
		struct run *copy = run_create(i, fake_task(i)->version, incarnation());

		mailbox_push(p.n.back_queue, &copy->note.mail);
	}
	hand.others = NULL; /* nobody starts them */
	beat();
	assert_int_equal(fake_count(FAKE_SCHEDULED), 2);
	beat();
	assert_int_equal(fake_task(1)->status, FAKE_CLAIMED);
	fake_task(1)->locked = false;
	beat();
	assert_int_equal(fake_task(1)->status, FAKE_SCHEDULED);
	parts_end(&p);
}

/* The server comes and goes, answers late, is another one; the machine sleeps.  Whoever acts has a lease, and
 * a lease is never longer than what was acknowledged. */
static int64_t sent_us;

static void
note_sent(enum fake_call what)
{
	if (what == FAKE_BEAT || what == FAKE_REGISTER)
		sent_us = clock_boot_us();
	nothing_may_be_at_work(what);
	hand_turn(random_below(random_below(20) == 0 ? 7000000 : 100000));
}

static void
in_random_histories_nobody_acts_without_a_lease_that_was_acknowledged(void **unused)
{
	unsigned fences = 0;

	for (int h = 0; h < 1000; h++) {
		begin();
		hand.step_us = 100 * US_PER_MS;
		fake.before = note_sent;
		fake.trouble = random_below(300);
		for (int i = 0; i < 25; i++) {
			int64_t before = incarnation();
			int64_t lease = lease_until(&p.n.lease);

			if (random_below(4) == 0) {
				parts_claimed(&p, clock_mono_us(), false);
				stubborn_us = clock_mono_us() + random_below(4000000);
			}

			switch (random_below(12)) {
			case 0: server_away_for(random_below(15000000)); break;
			case 1: hand.boot_ahead_us += random_below(8000000); break;
			case 2: row()->up = false; break;
			case 3: fake.generation++; break;
			default: break;
			}
			beat();
			assert_true(incarnation() != 0);
			if (incarnation() == before && lease_until(&p.n.lease) != lease)
				assert_true(lease_until(&p.n.lease) <= sent_us + p.set.fence_after_us);
			fences += incarnation() != before;
			if (incarnation() != before)
				assert_int_equal(incarnation(), row()->incarnation);
		}
		fake.before = NULL;
		parts_end(&p);
	}
	printf("# %u fences\n", fences);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_lease_counts_from_before_the_beat_was_sent),
	    cmocka_unit_test(without_an_answer_the_node_stops_when_its_lease_ends_and_not_before),
	    cmocka_unit_test(an_answer_that_comes_after_the_lease_is_over_does_not_renew_it),
	    cmocka_unit_test(a_node_that_was_declared_dead_stops_at_once),
	    cmocka_unit_test(a_machine_that_slept_through_its_lease_comes_back_as_another),
	    cmocka_unit_test(a_server_that_went_back_in_time_ends_the_incarnation_unless_it_was_synchronous),
	    cmocka_unit_test(a_registration_whose_answer_was_lost_is_looked_up),
	    cmocka_unit_test(a_name_that_another_node_took_is_left_to_it_until_that_one_is_silent),
	    cmocka_unit_test(
		what_ended_while_the_server_was_away_counts_before_the_old_incarnation_is_given_up),
	    cmocka_unit_test(no_new_incarnation_while_something_of_the_old_one_still_runs),
	    cmocka_unit_test(a_run_that_does_not_end_ends_the_process_before_others_may_begin_it),
	    cmocka_unit_test(a_node_with_nothing_in_hand_beats_half_as_often),
	    cmocka_unit_test(wishes_are_obeyed_with_the_next_beat),
	    cmocka_unit_test(labels_of_the_database_count_over_our_own),
	    cmocka_unit_test(who_joins_is_read_soon_and_who_leaves_owns_nothing_at_once),
	    cmocka_unit_test(who_leaves_right_after_another_waits_for_a_reading),
	    cmocka_unit_test(more_news_than_there_is_room_for_take_a_reading),
	    cmocka_unit_test(who_has_left_and_is_back_is_another_picture),
	    cmocka_unit_test(
		what_the_starter_could_not_hand_back_goes_with_the_beats_and_what_is_locked_behind_the_rest),
	    cmocka_unit_test(in_random_histories_nobody_acts_without_a_lease_that_was_acknowledged),
	};

	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
