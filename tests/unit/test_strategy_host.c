/*
 * The strategy host: built-in strategies by name, those of third parties by file (plugin_strategy.c in its
 * variants, and every built-in one built as a shared object), and what it refuses or corrects.
 */
#include "strategy/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/utf8.h"
#include "clusters.h"

/* The shared objects lie beside this program. */
static char *
beside(const char *name)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	assert_true(n > 0);
	self[n] = '\0';
	*strrchr(self, '/') = '\0';
	return xasprintf("%s/%s", self, name);
}

static struct strategy *
open_ok(const char *name, const char *options)
{
	struct strategy *s = NULL;
	struct err err = {0};

	if (strategy_open(name, options, &s, &err) != RC_OK)
		fail_msg("%s", err.text);
	return s;
}

static void
expect_refused(const char *name, const char *options, const char *words)
{
	struct strategy *s = NULL;
	struct err err = {0};

	assert_int_equal(strategy_open(name, options, &s, &err), RC_BAD);
	assert_null(s);
	if (strstr(err.text, words) == NULL)
		fail_msg("got  \"%s\"\nwant \"%s\"", err.text, words);
}

/* The error names the file and says what is wrong with it. */
static void
expect_file_refused(const char *file, const char *words)
{
	char *path = beside(file);

	expect_refused(path, "1", words);
	expect_refused(path, "1", file);
	free(path);
}

static void
host_finds_every_builtin_by_name(void **state)
{
	size_t n = 0;

	for (; strategy_builtin[n] != NULL; n++) {
		struct strategy *s = open_ok(strategy_builtin[n]->name, NULL);

		assert_true(strategy_overlapping(s) == strategy_builtin[n]->overlapping);
		assert_int_equal(strategy_builtin[n]->abi, PGRAB_STRATEGY_ABI);
		assert_non_null(strategy_builtin[n]->summary);
		strategy_close(&s);
		assert_null(s);
		strategy_close(&s);
	}
	assert_int_equal(n, 7);
}

static void
host_lists_the_names_when_one_is_unknown(void **state)
{
	expect_refused("idhash", "", "no strategy \"idhash\"");
	expect_refused("idhash", "", "default, id_hash, least_count, weight, rendezvous, adaptive, labels");
	expect_refused("", "", "no strategy \"\"");
	expect_refused("ID_HASH", "", "no strategy");
}

static void
host_refuses_options_that_nobody_reads(void **state)
{
	struct strategy *s = open_ok("id_hash", "  ");

	strategy_close(&s);
	expect_refused("id_hash", "keys=zone", "takes no options");
	expect_refused("labels", "keys=zone", "takes no options");
}

static void
host_loads_a_file(void **state)
{
	char *path = beside("strategy_toy.so");
	struct strategy *s = open_ok(path, "3");
	static struct picture p;
	struct pgrab_shard_set set;

	picture_random(&p, 2);
	strategy_shards(s, &p.c, 1, &set);
	assert_int_equal(set.word[0], 7);
	assert_int_equal(set_count(&set), 3);
	strategy_close(&s);
	expect_refused(path, "x", "refuses its strategy_options \"x\": how many shards? \"x\" is no number");
	free(path);
}

static void
host_refuses_files_that_are_no_strategies(void **state)
{
	expect_file_refused("strategy_toy_abi.so", "built for strategy ABI 99, this pgrab has ABI 2");
	expect_file_refused("strategy_toy_entry.so", "does not export the function pgrab_strategy_v1");
	expect_file_refused("strategy_toy_shards.so", "has no shards()");
	expect_file_refused("strategy_toy_name.so", "has no name");
	expect_file_refused("strategy_toy_null.so", "returned NULL");
	expect_file_refused("strategy_not_there.so", "No such file");
	expect_refused("not_there.so", "", "./not_there.so"); /* here, not in the system's folders */
	expect_refused("/dev/null", "", "/dev/null");
}

static void
host_refuses_shards_that_do_not_exist(void **state)
{
	static const uint32_t asked[] = {1, 64, 1023, 1024}, strays[] = {1025, 5000, 65535};
	char *path = beside("strategy_toy.so"), options[16];
	struct strategy *refused;
	struct err err = {0};
	struct pgrab_shard_set set[3];
	static struct picture p;

	picture_random(&p, 2);
	for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
		uint32_t limit[] = {PGRAB_SHARDS, 100};

		snprintf(options, sizeof options, "%u", (unsigned)asked[i]);
		struct strategy *s = open_ok(path, options);

		for (size_t k = 0; k < 2; k++) {
			p.c.shards = limit[k];
			memset(set, 0xaa, sizeof set);
			strategy_shards(s, &p.c, 0, &set[1]);
			assert_int_equal(set_count(&set[1]), asked[i] < limit[k] ? asked[i] : limit[k]);
			assert_int_equal(
			    set[0].word[PGRAB_SHARD_SET_WORDS - 1], UINT64_C(0xaaaaaaaaaaaaaaaa));
			assert_int_equal(set[2].word[0], UINT64_C(0xaaaaaaaaaaaaaaaa));
		}
		strategy_close(&s);
	}
	for (size_t i = 0; i < sizeof strays / sizeof *strays; i++) {
		snprintf(options, sizeof options, "%u", (unsigned)strays[i]);
		assert_int_equal(strategy_open(path, options, &refused, &err), RC_BAD);
		assert_non_null(strstr(err.text, "shards that do not exist"));
	}
	free(path);
}

static void
host_gives_a_rank_out_of_range_nothing(void **state)
{
	struct strategy *s = open_ok("default", "");
	static struct picture p;
	struct pgrab_shard_set set;

	picture_random(&p, 2);
	for (size_t rank = 2; rank < 5; rank++) {
		memset(&set, 0xff, sizeof set);
		strategy_shards(s, &p.c, rank, &set);
		assert_int_equal(set_count(&set), 0);
	}
	strategy_close(&s);
}

static void
host_cuts_the_quota_to_the_room(void **state)
{
	char *path = beside("strategy_toy.so");
	struct strategy *s = open_ok(path, "1"), *plain = open_ok("id_hash", "");
	static struct picture p;

	picture_random(&p, 2);
	assert_int_equal(strategy_quota(s, &p.c, 10), 0);
	assert_int_equal(strategy_quota(s, &p.c, 20), 12);
	assert_int_equal(strategy_quota(s, &p.c, 30), 30);
	assert_int_equal(strategy_quota(s, &p.c, 0), 0);
	assert_int_equal(strategy_quota(s, &p.c, -3), 0);
	assert_int_equal(strategy_quota(plain, &p.c, 30), 30);
	assert_int_equal(strategy_quota(plain, &p.c, -3), 0);
	strategy_close(&plain);
	strategy_close(&s);
	free(path);
}

static void
host_asks_accept_where_there_is_one(void **state)
{
	char *path = beside("strategy_toy.so");
	struct strategy *s = open_ok(path, "1"), *plain = open_ok("id_hash", "");
	struct pgrab_candidate odd = {.size = sizeof odd, .id = 1}, even = {.size = sizeof even, .id = 2};
	static struct picture p;

	picture_random(&p, 2);
	assert_true(strategy_accept(s, &p.c, &even));
	assert_false(strategy_accept(s, &p.c, &odd));
	assert_true(strategy_accept(plain, &p.c, &odd));
	strategy_close(&plain);
	strategy_close(&s);
	free(path);
}

/* Its reason goes into the database. */
static void
host_makes_text_of_the_reason(void **state)
{
	char *path = beside("strategy_toy.so");
	struct strategy *s = open_ok(path, "1");
	static struct picture p;

	picture_random(&p, 2);
	for (size_t size = 8; size < 16; size++) {
		char why[16];

		memset(why, 'x', sizeof why);
		assert_int_equal(strategy_fitness(s, &p.c, why, size), 1);
		assert_true(strlen(why) < size && strlen(why) > 2);
		assert_int_equal(utf8_trim(why, strlen(why)), strlen(why));
		assert_null(strchr(why, '\xff'));
	}
	strategy_close(&s);
	free(path);
}

/* The same source, compiled in and loaded, gives the same answers. */
static void
host_loads_every_builtin_as_a_file(void **state)
{
	struct pgrab_shard_set in, so;
	static struct picture p;

	for (size_t i = 0; strategy_builtin[i] != NULL; i++) {
		const char *name = strategy_builtin[i]->name;
		const char *same = strcmp(name, "labels") == 0 ? "id_hash" : name; /* one rule, two words */
		char *file = xasprintf("strategy_%s.so", same), *path = beside(file);
		struct strategy *a = open_ok(name, ""), *b = open_ok(path, "");

		picture_random(&p, 5);
		for (size_t rank = 0; rank < 5; rank++) {
			strategy_shards(a, &p.c, rank, &in);
			strategy_shards(b, &p.c, rank, &so);
			assert_memory_equal(&in, &so, sizeof in);
		}
		strategy_close(&b);
		strategy_close(&a);
		free(path);
		free(file);
	}
}

/* The example of strategies/example: two work, the rest stand by, and one of these steps in. */
static void
host_loads_the_example(void **state)
{
	char *path = beside("strategy_standby.so");
	struct strategy *s = open_ok(path, "active=2");
	static struct picture p, rest;
	struct pgrab_shard_set before, after;

	picture_random(&p, 4);
	picture_without(&rest, &p, 0);
	for (size_t rank = 0; rank < 4; rank++) {
		strategy_shards(s, &p.c, rank, &before);
		assert_int_equal(set_count(&before), rank < 2 ? PGRAB_SHARDS / 2 : 0);
	}
	strategy_shards(s, &p.c, 1, &before);
	strategy_shards(s, &rest.c, 1, &after); /* was 2 */
	assert_memory_equal(&before, &after, sizeof after);
	strategy_close(&s);
	expect_refused(path, "active=0", "write active=N");
	expect_refused(path, "active=2x", "write active=N");
	free(path);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(host_finds_every_builtin_by_name),
	    cmocka_unit_test(host_lists_the_names_when_one_is_unknown),
	    cmocka_unit_test(host_refuses_options_that_nobody_reads),
	    cmocka_unit_test(host_loads_a_file),
	    cmocka_unit_test(host_refuses_files_that_are_no_strategies),
	    cmocka_unit_test(host_refuses_shards_that_do_not_exist),
	    cmocka_unit_test(host_gives_a_rank_out_of_range_nothing),
	    cmocka_unit_test(host_cuts_the_quota_to_the_room),
	    cmocka_unit_test(host_asks_accept_where_there_is_one),
	    cmocka_unit_test(host_makes_text_of_the_reason),
	    cmocka_unit_test(host_loads_every_builtin_as_a_file),
	    cmocka_unit_test(host_loads_the_example),
	};

	chance_seed();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
