/* The pure rules: backoff, members and cluster, lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/backoff.h"
#include "core/cluster.h"
#include "core/lease.h"
#include "core/member.h"

/* --- backoff ----------------------------------------------------------------------------------------- */

static void
backoff_grows_stays_in_bounds_and_starts_anew(void **unused)
{
	struct backoff b;

	for (uint64_t seed = 0; seed < 200; seed++) {
		int64_t full = 1000;

		backoff_init(&b, 1000, 60000, seed);
		for (int i = 0; i < 100; i++) {
			int64_t us = backoff_next_us(&b);

			assert_in_range(us, full / 2, full);
			full = full * 2 > 60000 ? 60000 : full * 2;
		}
		backoff_reset(&b);
		assert_in_range(backoff_next_us(&b), 500, 1000);
	}
}

static void
backoff_differs_between_nodes(void **unused)
{
	struct backoff a, b;
	int same = 0;

	backoff_init(&a, US_PER_S, 60 * US_PER_S, 1);
	backoff_init(&b, US_PER_S, 60 * US_PER_S, 2);
	for (int i = 0; i < 20; i++)
		same += backoff_next_us(&a) == backoff_next_us(&b);
	assert_true(same < 3);
}

/* --- members ----------------------------------------------------------------------------------------- */

#define BEAT US_PER_S
#define DEAD (10 * US_PER_S)

static struct member_row
row(int64_t id, int64_t beat)
{
	static char names[10][8];

	snprintf(names[id % 10], sizeof names[0], "n%d", (int)id);
	return (struct member_row){.id = id,
	    .name = names[id % 10],
	    .incarnation = 100 + id,
	    .beat = beat,
	    .weight = 1,
	    .slots = 8,
	    .labels = "",
	    .heartbeat_us = BEAT,
	    .dead_after_us = DEAD};
}

static void
a_node_that_beats_never_dies(void **unused)
{
	struct members m;

	members_init(&m, 3 * BEAT);
	for (int64_t t = 1; t < 100; t++) {
		struct member_row rows[] = {row(1, t), row(2, t / 2)};

		members_observe(&m, rows, 2, 1, t * BEAT);
		assert_true(member_live(&m.item[0]) && member_live(&m.item[1]));
		assert_false(member_dead(&m.item[0]) || member_dead(&m.item[1]));
	}
	members_fini(&m);
}

static void
silence_counts_within_one_life_of_the_server(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 7)};

	members_init(&m, 3 * BEAT);
	for (int64_t t = 1; t < 40; t++) {
		members_observe(
		    &m, rows, 1, t < 10 ? 1 : 2, t * BEAT); /* the gap is no longer than any other */
		assert_int_equal(member_dead(&m.item[0]), t >= 20);
	}
	members_fini(&m);
}

static void
runs_that_outlast_a_restart_are_left_alone_for_longer(void **unused)
{
	const struct {
		int64_t life, now;
		bool pooled;
		int64_t dies;
	} waits[] = {{0, 2, false, 10}, {0, 2, true, 10}, {2, 2, false, 10}, {1, 2, false, 25},
	    {2, 2, true, 25}, {1, 2, true, 25}};

	for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
		struct members m;
		struct member_row rows[] = {row(1, 7)};

		rows[0].server_life = waits[i].life;
		members_init(&m, 3 * BEAT);
		m.pooled = waits[i].pooled;
		for (int64_t t = 0; t < 40; t++) {
			members_observe(&m, rows, 1, waits[i].now, (t + 1) * BEAT);
			assert_int_equal(member_dead(&m.item[0]), t >= waits[i].dies);
		}
		members_fini(&m);
	}
}

static void
a_silent_node_leaves_the_living_soon_and_is_dead_after_its_own_dead_after(void **unused)
{
	for (int idle = 0; idle < 2; idle++) {
		struct members m;
		int64_t left = 0, died = 0;

		members_init(&m, 3 * BEAT);
		for (int64_t t = 1; t < 30 && died == 0; t++) {
			struct member_row rows[] = {row(1, 7)};

			rows[0].in_hand = idle ? 0 : 1;
			/* what it said of itself counts, not what we would do */
			rows[0].dead_after_us = 2 * DEAD;
			members_observe(&m, rows, 1, 1, t * BEAT);
			if (left == 0 && !member_live(&m.item[0]))
				left = t;
			if (member_dead(&m.item[0]))
				died = t;
		}
		/* first seen at 1; 2.5 beats later, or 3.5 with nothing in hand */
		assert_int_equal(left, idle ? 5 : 4);
		assert_int_equal(died, 21);
		members_fini(&m);
	}
}

static void
time_in_which_we_could_not_look_counts_for_nothing(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 7)};
	int64_t now = BEAT;

	members_init(&m, 3 * BEAT);
	/* Nine seconds of silence seen, then an outage of an hour, then nine more: never ten in a row. */
	for (int outage = 0; outage < 5; outage++) {
		for (int i = 0; i < 10; i++, now += BEAT) {
			members_observe(&m, rows, 1, 1, now);
			assert_false(member_dead(&m.item[0]));
		}
		now += 3600 * BEAT;
	}
	members_fini(&m);
}

static void
a_new_incarnation_with_the_same_beat_is_alive(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 7)};

	members_init(&m, 3 * BEAT);
	for (int64_t t = 1; t <= 9; t++)
		members_observe(&m, rows, 1, 1, t * BEAT);
	rows[0].incarnation++;
	members_observe(&m, rows, 1, 1, 10 * BEAT);
	assert_int_equal(m.item[0].silent_us, 0);
	members_fini(&m);
}

/* Random comings, goings and silences against a plain model. */
static void
observation_agrees_with_a_model(void **unused)
{
	unsigned seed = (unsigned)time(NULL);
	int64_t silent[10] = {0}, beat[10] = {0}, seen[10] = {0}, now = BEAT;
	bool there[10] = {false};
	struct members m;

	print_message("# seed %u\n", seed);
	srand(seed);
	members_init(&m, 3 * BEAT);
	for (int round = 0; round < 5000; round++) {
		int64_t gap = rand() % 20 == 0 ? 4 * BEAT + rand() % BEAT : rand() % (3 * BEAT);
		struct member_row rows[10];
		size_t n = 0;

		now += gap;
		for (int64_t id = 0; id < 10; id++) {
			bool present = rand() % 10 != 0, known = there[id];

			there[id] = present;
			if (!present)
				continue;
			beat[id] += rand() % 2;
			silent[id] = known && gap <= 3 * BEAT && beat[id] == seen[id] ? silent[id] + gap : 0;
			seen[id] = beat[id];
			rows[n++] = row(id, beat[id]);
		}
		members_observe(&m, rows, n, 1, now);
		assert_int_equal(m.count, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(m.item[i].silent_us, silent[m.item[i].id]);
	}
	members_fini(&m);
}

/* --- cluster ----------------------------------------------------------------------------------------- */

static void
the_picture_holds_the_living_in_rank_order_and_finds_oneself(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 1), row(3, 1), row(5, 1), row(8, 1)};
	struct cluster *c;

	rows[0].draining = true;
	rows[2].labels = "4:zone,2:eu,4:disk,3:ssd,";
	members_init(&m, 3 * BEAT);
	members_observe(&m, rows, 4, 1, BEAT);
	c = cluster_build(&m, 5, false);
	assert_int_equal(c->view.n_nodes, 3);
	assert_int_equal(c->view.self, 1);
	assert_int_equal(c->view.nodes[2].id, 8);
	assert_string_equal(c->view.nodes[1].labels[0].key, "disk");
	assert_string_equal(c->view.nodes[1].labels[1].value, "eu");

	struct cluster_slot slot;

	cluster_slot_init(&slot);
	cluster_slot_set(&slot, c);
	struct cluster *held = cluster_slot_get(&slot);
	struct cluster *gone = cluster_build(&m, 5, true);

	assert_int_equal(gone->view.n_nodes, 2);
	assert_int_equal(gone->view.self, 2); /* not among the living */
	assert_false(cluster_same_shape(c, gone));
	cluster_slot_set(&slot, gone);
	assert_string_equal(held->view.nodes[0].name, "n3"); /* still readable by who holds it */
	cluster_put(&slot, held);
	cluster_slot_fini(&slot);
	members_fini(&m);
}

static void
what_a_node_tells_of_itself_is_so_until_the_next_reading(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 1), row(3, 1)};
	struct cluster_slot slot;
	struct cluster *c;

	members_init(&m, 3 * BEAT);
	members_observe(&m, rows, 2, 1, BEAT);
	assert_true(members_hear(&m, 3, MEMBER_BUSY));
	assert_true(m.item[1].busy && member_live(&m.item[1]));
	assert_true(members_hear(&m, 3, MEMBER_LEAVES));
	assert_false(member_live(&m.item[1]));
	assert_false(members_hear(&m, 3, MEMBER_LEAVES)); /* we knew that */
	assert_false(members_hear(&m, 2, MEMBER_LEAVES)); /* no such node */
	assert_true(members_hear(&m, 1, MEMBER_LEAVES));
	c = cluster_build(&m, 1, false);
	assert_int_equal(c->view.n_nodes, 1);
	assert_int_equal(c->view.nodes[0].id, 1); /* of oneself one knows better: anybody may ring */
	cluster_slot_init(&slot);
	cluster_slot_set(&slot, c);
	cluster_slot_fini(&slot);
	members_observe(&m, rows, 2, 1, 2 * BEAT);
	assert_true(member_live(&m.item[1]) && !m.item[1].busy);
	members_fini(&m);
}

static void
oneself_is_alive_whatever_one_has_seen(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 7), row(2, 7)};
	struct cluster *c;
	struct cluster_slot slot;

	members_init(&m, 3 * BEAT);
	for (int64_t t = 1; t < 9; t++)
		members_observe(&m, rows, 2, 1, t * BEAT);
	c = cluster_build(&m, 1, false);
	assert_int_equal(c->view.n_nodes, 1);
	assert_int_equal(c->view.self, 0);
	cluster_slot_init(&slot);
	cluster_slot_set(&slot, c);
	cluster_slot_fini(&slot);
	members_fini(&m);
}

/* A reserved node is no help for what it does not take; one that takes more is. */
static void
work_is_left_only_to_those_that_take_all_of_it(void **unused)
{
	struct members m;
	struct member_row rows[] = {row(1, 5), row(2, 5), row(3, 5)};

	rows[0].from_band = rows[2].from_band = 1;
	rows[1].from_band = 4;
	rows[2].busy = true;
	members_init(&m, 3 * BEAT);
	members_observe(&m, rows, 3, 1, BEAT);
	struct cluster_slot slot;
	struct cluster *plain = cluster_build(&m, 1, false), *kept = cluster_build(&m, 2, false);

	assert_int_equal(plain->view.n_nodes, 3);
	assert_int_equal(plain->peers.n_nodes, 2);
	assert_int_equal(plain->peers.self, 0);
	assert_int_equal(plain->peers.nodes[1].id, 3);
	assert_false(cluster_has_free(plain));
	assert_int_equal(kept->peers.n_nodes, 3);
	assert_int_equal(kept->peers.self, 1);
	assert_true(cluster_has_free(kept));
	rows[1].from_band = 5;
	members_observe(&m, rows, 3, 1, 2 * BEAT);
	struct cluster *later = cluster_build(&m, 1, false);

	assert_false(cluster_same_shape(plain, later));
	cluster_slot_init(&slot);
	cluster_put(&slot, plain);
	cluster_put(&slot, kept);
	cluster_put(&slot, later);
	cluster_slot_fini(&slot);
	members_fini(&m);
}

static void
a_lease_ends_when_it_says(void **unused)
{
	struct lease l = {0};

	assert_false(lease_holds(&l, 0));
	lease_renew(&l, 100, 50);
	assert_true(lease_holds(&l, 149));
	assert_false(lease_holds(&l, 150));
	lease_drop(&l);
	assert_false(lease_holds(&l, 1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(backoff_grows_stays_in_bounds_and_starts_anew),
	    cmocka_unit_test(backoff_differs_between_nodes),
	    cmocka_unit_test(a_node_that_beats_never_dies),
	    cmocka_unit_test(silence_counts_within_one_life_of_the_server),
	    cmocka_unit_test(runs_that_outlast_a_restart_are_left_alone_for_longer),
	    cmocka_unit_test(a_silent_node_leaves_the_living_soon_and_is_dead_after_its_own_dead_after),
	    cmocka_unit_test(time_in_which_we_could_not_look_counts_for_nothing),
	    cmocka_unit_test(a_new_incarnation_with_the_same_beat_is_alive),
	    cmocka_unit_test(observation_agrees_with_a_model),
	    cmocka_unit_test(the_picture_holds_the_living_in_rank_order_and_finds_oneself),
	    cmocka_unit_test(what_a_node_tells_of_itself_is_so_until_the_next_reading),
	    cmocka_unit_test(oneself_is_alive_whatever_one_has_seen),
	    cmocka_unit_test(work_is_left_only_to_those_that_take_all_of_it),
	    cmocka_unit_test(a_lease_ends_when_it_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
