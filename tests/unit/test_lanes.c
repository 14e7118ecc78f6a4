/* Lanes: each is divided among the nodes that are able to run it, and marks never pass what was
 * left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/rc.h"
#include "node/lanes/lanes.h"
#include "strategy/host.h"

#define NODES 3

static struct strategy *
open_id_hash(void)
{
	struct strategy *s = NULL;
	struct err err;

	assert_int_equal(strategy_open("id_hash", "", &s, &err), RC_OK);
	return s;
}

static void
fill_cluster(struct pgrab_cluster *c, struct pgrab_node *node, size_t self)
{
	static const char *const name[NODES] = {"a", "b", "c"};

	for (size_t i = 0; i < NODES; i++)
		node[i] = (struct pgrab_node){
		    .id = 10 * ((int64_t)i + 1), .name = name[i], .weight = 1, .slots = 8};
	*c = (struct pgrab_cluster){
	    .size = sizeof *c, .shards = PGRAB_SHARDS, .n_nodes = NODES, .nodes = node, .self = self};
}

static size_t
own_count(const struct lane *l)
{
	return l->n_shards;
}

static void
a_lane_is_divided_among_those_who_are_able(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[NODES];
	struct pgrab_cluster c;
	int64_t all[] = {10, 20, 30}, two[] = {10, 30}, one[] = {10};
	struct lane_row rows[] = {{.lane = 1, .able = all, .n_able = 3},
	    {.lane = 2, .able = two, .n_able = 2}, {.lane = 3, .able = one, .n_able = 1}};
	size_t seen[3] = {0};

	for (size_t self = 0; self < NODES; self++) {
		struct lanes ls;
		bool able[3] = {true, self != 1, self == 0};

		fill_cluster(&c, node, self);
		lanes_init(&ls, 0, 1);
		/* As the database answers: only lanes that this node may run. */
		struct lane_row mine[3];
		size_t n = 0;

		for (size_t i = 0; i < 3; i++) {
			if (able[i])
				mine[n++] = rows[i];
		}
		lanes_refresh(&ls, mine, n, s, &c, NULL);
		assert_int_equal(ls.count, n);
		for (size_t i = 0; i < n; i++)
			seen[ls.item[i].row->lane - 1] += own_count(&ls.item[i]);
		lanes_fini(&ls);
	}
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(seen[i], PGRAB_SHARDS);
	strategy_close(&s);
}

/* So many nodes that each reads only a part of the others' shards at a time. */
#define CROWD 40

static void
fill_many(struct pgrab_cluster *c, struct pgrab_node *node, int64_t *id, size_t self)
{
	for (size_t i = 0; i < CROWD; i++) {
		id[i] = (int64_t)i + 1;
		node[i] = (struct pgrab_node){.id = id[i], .name = "n", .weight = 1, .slots = 8};
	}
	*c = (struct pgrab_cluster){
	    .size = sizeof *c, .shards = PGRAB_SHARDS, .n_nodes = CROWD, .nodes = node, .self = self};
}

/* One look at the shards of others, into seen, by shard.  Returns how many it reads. */
static size_t
watch_once(struct lanes *ls, struct look_query *q, unsigned *seen)
{
	const int64_t room[] = {8};

	lanes_part(ls, LANES_OTHERS, NULL, room, 0, 7, q);
	assert_int_equal(q->n_lanes, 1);
	for (size_t i = 0; i < q->lane[0].n_shards; i++)
		seen[q->lane[0].shard[i]]++;
	return q->lane[0].n_shards;
}

static void
many_nodes_watch_a_part_of_the_others_each(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[CROWD];
	struct pgrab_cluster c;
	int64_t id[CROWD];
	struct lane_row row = {.lane = 1, .able = id, .n_able = CROWD};
	unsigned first[PGRAB_SHARDS] = {0};
	struct look_query q = {0};

	for (size_t self = 0; self < CROWD; self++) {
		unsigned seen[PGRAB_SHARDS] = {0};
		struct lanes ls;

		fill_many(&c, node, id, self);
		lanes_init(&ls, 0, 1);
		for (c.n_nodes = self + 1; c.n_nodes <= CROWD; c.n_nodes++) { /* as they come */
			row.n_able = c.n_nodes;
			lanes_refresh(&ls, &row, 1, s, &c, NULL);
		}
		c.n_nodes = CROWD;
		assert_in_range(watch_once(&ls, &q, first), 1, PGRAB_SHARDS * 8 / CROWD + 1);
		for (size_t looks = 0; looks < CROWD / 8; looks++) {
			watch_once(&ls, &q, seen);
			lanes_watch_next(&ls);
			lanes_refresh(&ls, &row, 1, s, &c, NULL); /* goes on where it was */
		}
		for (unsigned i = 0; i < PGRAB_SHARDS; i++)
			assert_true(pgrab_shard_has(&ls.item[0].own, i) ? seen[i] == 0 : seen[i] > 0);
		lanes_fini(&ls);
	}
	for (unsigned i = 0; i < PGRAB_SHARDS; i++)
		assert_in_range(first[i], 5, 11); /* 8 on average */
	look_fini(&q);
	strategy_close(&s);
}

static void
what_is_noted_and_what_others_are_preferred_for_is_read_in_full(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[CROWD];
	struct pgrab_cluster c;
	int64_t id[CROWD];
	struct lane_row row = {.lane = 1, .able = id, .n_able = CROWD};
	unsigned seen[PGRAB_SHARDS] = {0};
	struct look_query q = {0};
	struct lanes ls;
	size_t part;

	fill_many(&c, node, id, 0);
	lanes_init(&ls, 0, 1);
	lanes_refresh(&ls, &row, 1, s, &c, NULL);
	part = watch_once(&ls, &q, seen);
	for (unsigned i = 0; i < PGRAB_SHARDS; i++) {
		if (seen[i] == 0 && !pgrab_shard_has(&ls.item[0].own, i))
			pgrab_shard_add(&ls.again, i);
	}
	assert_in_range(part, 1, PGRAB_SHARDS / 2);
	part = ls.item[0].n_shards;
	assert_int_equal(watch_once(&ls, &q, seen), PGRAB_SHARDS - part);
	lanes_fini(&ls);
	lanes_init(&ls, 0, 1);
	row.late_us = 1; /* and this node is not one of those that are preferred */
	row.able = id + 1;
	row.n_able = CROWD - 1;
	lanes_refresh(&ls, &row, 1, s, &c, NULL);
	assert_int_equal(watch_once(&ls, &q, seen), PGRAB_SHARDS);
	assert_int_equal(
	    ls.item[0].watch.first, PGRAB_SHARDS / 2); /* of node 1, also when it is one of them */
	lanes_fini(&ls);
	look_fini(&q);
	strategy_close(&s);
}

static void
the_most_important_lane_is_read_first_and_loaders_share_the_shards(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[NODES];
	struct pgrab_cluster c;
	int64_t self[] = {10};
	struct lane_row rows[] = {{.lane = 1, .band = 1, .able = self, .n_able = 1},
	    {.lane = 2, .band = 5, .able = self, .n_able = 1}};
	const int64_t room[] = {8};
	struct lanes first, second;
	struct look_query q = {0};

	fill_cluster(&c, node, 0);
	c.n_nodes = 1;
	lanes_init(&first, 0, 2);
	lanes_init(&second, 1, 2);
	lanes_refresh(&first, rows, 2, s, &c, NULL);
	lanes_refresh(&second, rows, 2, s, &c, NULL);
	lanes_part(&first, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 2);
	assert_int_equal(q.lane[0].lane, 2);
	assert_int_equal(q.lane[0].n_shards, PGRAB_SHARDS / 2);
	assert_int_equal(own_count(&second.item[0]), PGRAB_SHARDS / 2);
	assert_int_equal(first.item[0].shard[0] % 2, 0);
	assert_int_equal(second.item[0].shard[0] % 2, 1);
	lanes_fini(&first);
	lanes_fini(&second);
	look_fini(&q);
	strategy_close(&s);
}

/* One node, and one lane, 10, that is its own. */
struct alone {
	struct strategy *strategy;
	struct pgrab_node node[NODES];
	struct pgrab_cluster cluster;
	int64_t able[1];
	struct lane_row row;
	struct lanes ls;
	struct look_query q;
};

static void
alone_begin(struct alone *a)
{
	*a = (struct alone){.strategy = open_id_hash(), .able = {10}};
	a->row = (struct lane_row){.lane = 10, .band = 2, .able = a->able, .n_able = 1};
	fill_cluster(&a->cluster, a->node, 0);
	a->cluster.n_nodes = 1;
	lanes_init(&a->ls, 0, 1);
	lanes_refresh(&a->ls, &a->row, 1, a->strategy, &a->cluster, NULL);
}

static void
alone_end(struct alone *a)
{
	look_fini(&a->q);
	lanes_fini(&a->ls);
	strategy_close(&a->strategy);
}

static void
a_mark_stops_before_what_was_left_behind(void **unused)
{
	struct alone a;
	int64_t room[] = {5};
	struct candidate found[] = {{.lane = 10, .shard = 3, .due_us = 100, .late_us = 50, .chosen = true},
	    {.lane = 10, .shard = 3, .due_us = 200, .late_us = 40},
	    {.lane = 10, .shard = 3, .due_us = 300, .late_us = 30, .chosen = true},
	    {.lane = 10, .shard = 7, .due_us = 400, .late_us = 20, .refused = true},
	    {.lane = 10, .shard = 9, .due_us = 500, .late_us = -20, .chosen = true}};

	alone_begin(&a);
	assert_true(a.ls.item[0].mark[3] == LOOK_NO_MARK);
	lanes_part(&a.ls, LANES_OWN, NULL, room, 0, 0, &a.q);
	lanes_progress(&a.ls, &a.q, found, 5);
	assert_int_equal(a.ls.item[0].mark[3], 100);
	assert_int_equal(a.ls.item[0].mark[7], 400);
	assert_true(a.ls.item[0].mark[9] == LOOK_NO_MARK); /* not due yet: an older one may still come */
	assert_int_equal(a.ls.item[0].shard[a.ls.item[0].turn], 10); /* the others have waited as long */
	alone_end(&a);
}

/* Tasks that are not due yet come after it. */
static void
behind_a_backlog_what_is_not_due_is_not_asked_for(void **unused)
{
	struct alone a;
	int64_t room[] = {2};
	struct candidate found[2] = {
	    {.lane = 10, .shard = 3, .late_us = 50}, {.lane = 10, .shard = 3, .late_us = 40}};

	alone_begin(&a);
	lanes_part(&a.ls, LANES_OWN, NULL, room, 0, 0, &a.q);
	lanes_progress(&a.ls, &a.q, found, 2); /* as many as there is room for */
	room[0] = 0;
	lanes_part(&a.ls, LANES_OWN, NULL, room, 100, 0, &a.q);
	assert_int_equal(a.q.n_lanes, 0);
	room[0] = 5;
	lanes_part(&a.ls, LANES_OWN, NULL, room, 100, 0, &a.q);
	assert_int_equal(a.q.lane[0].wanted, 128); /* the best of these */
	assert_true(a.q.lane[0].due_only);
	lanes_part(&a.ls, LANES_OWN, NULL, room, 100, 0, &a.q); /* nothing was found any more */
	assert_int_equal(a.q.lane[0].wanted, 105);
	assert_false(a.q.lane[0].due_only);
	alone_end(&a);
}

/* With room for more than one look returns, what fills it is a backlog all the same: a look without room
 * would read as many rows again that nobody can take. */
static void
a_look_that_is_filled_has_found_a_backlog(void **unused)
{
	struct alone a;
	int64_t room[] = {1500};
	struct candidate found[1000];

	alone_begin(&a);
	for (size_t i = 0; i < 1000; i++)
		found[i] = (struct candidate){.lane = 10, .shard = (uint16_t)(i / 125), .late_us = 50};
	lanes_part(&a.ls, LANES_OWN, NULL, room, 100, 0, &a.q);
	assert_int_equal(a.q.lane[0].wanted, 1000);
	lanes_progress(&a.ls, &a.q, found, 1000);
	room[0] = 0;
	lanes_part(&a.ls, LANES_OWN, NULL, room, 100, 0, &a.q);
	assert_int_equal(a.q.n_lanes, 0);
	alone_end(&a);
}

/* Each lane is asked for its own number of rows, not for that of the lane with the most room. */
static void
a_look_at_a_backlog_asks_for_what_there_is_room_for(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[NODES];
	struct pgrab_cluster c;
	int64_t self[] = {10}, room[] = {8, 300};
	struct lane_row rows[] = {{.lane = 10, .band = 2, .able = self, .n_able = 1},
	    {.lane = 18, .band = 2, .able = self, .n_able = 1, .crew = 1}};
	struct candidate found[300];
	struct lanes ls;
	struct look_query q = {0};

	fill_cluster(&c, node, 0);
	c.n_nodes = 1;
	lanes_init(&ls, 0, 1);
	lanes_refresh(&ls, rows, 2, s, &c, NULL);
	for (size_t i = 0; i < 300; i++)
		found[i] = (struct candidate){.lane = 18, .shard = (uint16_t)(i / 100), .late_us = 50};
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.lane[0].wanted, 108);
	assert_int_equal(q.lane[1].wanted, 400);
	lanes_progress(&ls, &q, found, 300);                /* as many as there is room for */
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q); /* each lane as it is */
	assert_int_equal(q.lane[0].wanted, 108);
	assert_int_equal(q.lane[1].wanted, 300);
	assert_int_equal(q.lane[1].slice, 38); /* the oldest of each shard */
	lanes_progress(&ls, &q, found, 299);   /* fewer: all there are */
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.lane[1].wanted, 400);
	lanes_part(&ls, LANES_OWN, NULL, room, 5000, 0, &q); /* bounded */
	assert_int_equal(q.lane[1].wanted, 1000);
	room[1] = 0;
	lanes_part(&ls, LANES_OWN, NULL, room, 2, 0, &q); /* who has no room is passed by */
	assert_int_equal(q.n_lanes, 1);
	assert_int_equal(q.lane[0].wanted, 10);
	lanes_fini(&ls);
	look_fini(&q);
	strategy_close(&s);
}

static void
what_was_dry_may_be_left_out_of_looks_at_our_own(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[NODES];
	struct pgrab_cluster c;
	int64_t self[] = {10}, room[] = {8};
	struct lane_row rows[] = {{.lane = 10, .band = 2, .able = self, .n_able = 1},
	    {.lane = 18, .band = 2, .able = self, .n_able = 1}};
	struct candidate found = {.lane = 18, .shard = 3, .late_us = 50};
	struct lanes ls;
	struct look_query q = {0};

	fill_cluster(&c, node, 0);
	c.n_nodes = 1;
	lanes_init(&ls, 0, 1);
	lanes_refresh(&ls, rows, 2, s, &c, NULL);
	ls.spare = true;
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 2); /* nothing is known yet */
	lanes_progress(&ls, &q, &found, 1);
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 1);
	assert_int_equal(q.lane[0].lane, 18);
	ls.spare = false;
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 2);
	found.lane = 10;
	lanes_progress(&ls, &q, &found, 1);
	ls.spare = true;
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 1);
	assert_int_equal(q.lane[0].lane, 10);
	lanes_fini(&ls);
	look_fini(&q);
	strategy_close(&s);
}

#define MANY 100

/* Of many lanes only those shards are read that a survey, or a look, has named; at first all, in turn. */
static void
of_many_lanes_only_what_a_survey_has_found_is_read(void **unused)
{
	struct strategy *s = open_id_hash();
	struct pgrab_node node[NODES];
	struct pgrab_cluster c;
	int64_t self[] = {10}, room[] = {8};
	struct lane_row rows[MANY];
	struct pgrab_shard_set soon[MANY] = {0};
	const char *keys[SURVEY_STEPS];
	struct candidate found = {.lane = 30, .shard = 9};
	struct lanes ls;
	struct look_query q = {0};

	for (int64_t i = 0; i < MANY; i++)
		rows[i] = (struct lane_row){.lane = i + 1, .band = 2, .able = self, .n_able = 1};
	fill_cluster(&c, node, 0);
	c.n_nodes = 1;
	lanes_init(&ls, 0, 1);
	lanes_refresh(&ls, rows, MANY, s, &c, NULL);
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 64);
	assert_false(lanes_fit(&ls));
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q); /* on from there */
	assert_int_equal(q.lane[0].lane, 65);

	assert_int_equal(lanes_to_survey(&ls, keys), MANY);
	pgrab_shard_add(&soon[6], 3);
	assert_false(lanes_surveyed(&ls, soon, 60));
	assert_int_equal(lanes_to_survey(&ls, keys), MANY - 60);
	assert_true(lanes_surveyed(&ls, &soon[60], MANY - 60));
	assert_true(lanes_fit(&ls));
	lanes_found(&ls, &found, 1);
	lanes_refresh(&ls, rows, MANY, s, &c, NULL);
	lanes_part(&ls, LANES_OWN, NULL, room, 100, 0, &q);
	assert_int_equal(q.n_lanes, 2);
	assert_int_equal(q.lane[0].lane, 30); /* it goes on from where the last look ended */
	assert_int_equal(q.lane[0].shard[0], 9);
	assert_int_equal(q.lane[1].lane, 7);
	assert_int_equal(q.lane[1].n_shards, 1);
	assert_int_equal(q.lane[1].shard[0], 3);
	lanes_part(&ls, LANES_RUNG, &soon[6], room, 100, 0, &q); /* a bell tells of what no survey knows */
	assert_int_equal(q.n_lanes, MANY);
	lanes_fini(&ls);
	look_fini(&q);
	strategy_close(&s);
}

/* A server with so many tasks of each key: what a look in turns finds there. */
static void
look_in_turns(int *left, int n_keys, struct look_lane *to)
{
	int at = to->after[0] == '\0' ? 0 : atoi(to->after) + 1;

	for (int i = 0; i < n_keys && to->found < to->wanted; i++, at++) {
		int key = at % n_keys, each = left[key];

		to->wrapped = to->wrapped || at >= n_keys;
		if (each == 0)
			continue;
		each = each < to->slice ? each : (int)to->slice;
		if (each > to->wanted - to->found)
			each = (int)(to->wanted - to->found);
		to->keys++;
		left[key] -= each;
		to->found += each;
		snprintf(to->after, sizeof to->after, "%d", key);
	}
}

/* Until the keys but the first are empty: how much of the first was taken meanwhile? */
static int
taken_meanwhile(int *left, int n_keys, int64_t room, int *looks)
{
	struct lane l = {.room = room, .n_shards = 1};
	int before = left[0], others = 1;

	for (*looks = 0; others > 0 && *looks < 100000; ++*looks) {
		struct look_lane to = {.wanted = room};

		turns_ask(&l, &to);
		look_in_turns(left, n_keys, &to);
		turns_taken(&l, &to);
		assert_true(l.backlog || to.found == 0 || l.turns.each == room);
		others = 0;
		for (int key = 1; key < n_keys; key++)
			others += left[key];
	}
	return before - left[0];
}

static void
keys_take_turns_however_many_there_are_and_however_much_of_each(void **unused)
{
	static const int64_t rooms[] = {1, 3, 8, 64, 1000};
	static const int counts[] = {2, 3, 17, 400};

	for (size_t r = 0; r < 5; r++) {
		for (size_t k = 0; k < 4; k++) {
			int left[400], looks, small = 10, n = counts[k], taken;

			for (int i = 0; i < n; i++)
				left[i] = i == 0 ? 10000000 : small;
			taken = taken_meanwhile(left, n, rooms[r], &looks);
			/* Ten rounds; a look for many rows takes several of each key. */
			assert_true(taken <= 2 * small + rooms[r] / 32);
			assert_true(looks <= 20 + n * (small + 1));
		}
	}
}

static void
one_key_alone_fills_the_looks(void **unused)
{
	struct lane l = {.room = 100, .n_shards = 1};
	int left[] = {1000000}, taken = 0;

	for (int i = 0; i < 20; i++) {
		struct look_lane to = {.wanted = 100};

		turns_ask(&l, &to);
		look_in_turns(left, 1, &to);
		turns_taken(&l, &to);
		taken = (int)to.found;
	}
	assert_int_equal(taken, 100);
}

static void
looks_without_turns_follow_only_while_a_key_is_alone(void **unused)
{
	struct lane l = {.room = 100, .n_shards = 1};
	int left[] = {1000000, 0}, turns = 0;

	for (int i = 0; i < 42; i++) {
		struct look_lane to = {.wanted = 100};

		if (i == 21)
			left[1] = 1000000;
		if (i == 25)
			turns = 0;
		if (!turns_worthwhile(&l))
			continue;
		turns_ask(&l, &to);
		look_in_turns(left, 2, &to);
		turns_taken(&l, &to);
		turns++;
		if (i == 20)
			assert_in_range(turns, 5, 7);
	}
	assert_int_equal(turns, 42 - 25);
	assert_true(left[1] < 1000000);
}

/* In the order of turns: whatever is claimed later, and however old it is, comes behind. */
static void
what_had_its_turn_is_not_passed_by_an_old_backlog(void **unused)
{
	struct lane l = {.room = 4, .n_shards = 1};
	int64_t last_us = 0;

	for (int i = 0; i < 100; i++) {
		struct look_lane asked = {.wrapped = i % 3 == 2};
		struct candidate c[2] = {{.due_us = 1000 + i}, {.due_us = i % 2 == 0 ? 500 + i : 9000000}};

		for (int k = 0; k < 2; k++)
			c[k].late_us = 10000000 - c[k].due_us;
		turns_place(&l, &asked, c, 2);
		for (int k = 0; k < 2; k++) {
			int64_t as_if_us = 10000000 - c[k].age_us;

			assert_true(as_if_us > last_us);
			last_us = as_if_us;
		}
	}
	assert_true(last_us < 9000000); /* it has the place of its oldest */
}

/* The second round has only new tasks; then a key is alone, and looks without turns find its old ones. */
static void
what_had_its_turn_is_not_passed_by_looks_without_turns(void **unused)
{
	struct lane l = {.room = 2, .n_shards = 1};
	struct look_lane asked = {.wrapped = true};
	struct candidate old = {.due_us = 1000, .late_us = 9000};
	struct candidate later = {.due_us = 9000, .late_us = 1000};
	struct candidate between = {.due_us = 5000, .late_us = 5000}, turn[2] = {between, between};

	turns_behind(&l, &old, 1);
	assert_int_equal(old.age_us, 9000); /* nothing had its turn */
	for (int round = 0; round < 2; round++)
		turns_place(&l, &asked, turn, 2);
	turns_behind(&l, &old, 1);
	assert_true(old.age_us < turn[0].age_us && old.age_us < turn[1].age_us);
	turns_behind(&l, &later, 1);
	assert_int_equal(later.age_us, 1000);
}

static void
a_backlog_that_is_over_gives_the_next_one_no_place(void **unused)
{
	struct lane l = {.room = 4, .n_shards = 1};
	struct look_lane last = {.wanted = 4, .slice = 4, .found = 1, .keys = 1};
	struct candidate old = {.due_us = 500, .late_us = 1000}, new = {.due_us = 9000000};

	turns_place(&l, &last, &old, 1);
	turns_taken(&l, &last);
	assert_false(l.backlog);
	turns_place(&l, &(struct look_lane){0}, &new, 1);
	assert_int_equal(new.age_us, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(keys_take_turns_however_many_there_are_and_however_much_of_each),
	    cmocka_unit_test(one_key_alone_fills_the_looks),
	    cmocka_unit_test(looks_without_turns_follow_only_while_a_key_is_alone),
	    cmocka_unit_test(what_had_its_turn_is_not_passed_by_an_old_backlog),
	    cmocka_unit_test(what_had_its_turn_is_not_passed_by_looks_without_turns),
	    cmocka_unit_test(a_backlog_that_is_over_gives_the_next_one_no_place),
	    cmocka_unit_test(a_lane_is_divided_among_those_who_are_able),
	    cmocka_unit_test(many_nodes_watch_a_part_of_the_others_each),
	    cmocka_unit_test(what_is_noted_and_what_others_are_preferred_for_is_read_in_full),
	    cmocka_unit_test(the_most_important_lane_is_read_first_and_loaders_share_the_shards),
	    cmocka_unit_test(a_mark_stops_before_what_was_left_behind),
	    cmocka_unit_test(behind_a_backlog_what_is_not_due_is_not_asked_for),
	    cmocka_unit_test(a_look_that_is_filled_has_found_a_backlog),
	    cmocka_unit_test(a_look_at_a_backlog_asks_for_what_there_is_room_for),
	    cmocka_unit_test(what_was_dry_may_be_left_out_of_looks_at_our_own),
	    cmocka_unit_test(of_many_lanes_only_what_a_survey_has_found_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
