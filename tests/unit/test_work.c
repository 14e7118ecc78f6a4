/* What is kept of a node's runs, and the text in which it travels; what the machine has left. */
#include "core/work.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/machine.h"

static void
recent_runs_count_for_more(void **state)
{
	struct work w = {0};
	struct pgrab_work view[WORK_KINDS];

	for (int i = 0; i < 1000; i++)
		work_note(&w, "shell", true, 1000);
	assert_int_equal(work_view(&w, view), 1);
	assert_true(view[0].runs > WORK_RUNS - 1 && view[0].runs <= WORK_RUNS + 0.01);
	assert_true(view[0].succeeded == view[0].runs);
	assert_true(view[0].typical_us > 999 && view[0].typical_us < 1001);
	for (int i = 0; i < WORK_RUNS; i++)
		work_note(&w, "shell", false, 1);
	(void)work_view(&w, view);
	assert_true(view[0].succeeded < view[0].runs * 0.4);
	/* How long failures take says nothing. */
	assert_true(view[0].typical_us > 999 && view[0].typical_us < 1001);
}

/* One of an hour among fifty of a second. */
static void
a_single_long_run_says_little(void **state)
{
	struct work w = {0};
	struct pgrab_work view[WORK_KINDS];

	for (int i = 0; i < 50; i++)
		work_note(&w, "shell", true, i == 25 ? INT64_C(3600000000) : 1000000);
	(void)work_view(&w, view);
	assert_true(view[0].typical_us > 0.9e6 && view[0].typical_us < 1.5e6);
}

static void
all_fades_alike(void **state)
{
	struct work w = {0};
	struct pgrab_work view[WORK_KINDS];

	for (int i = 0; i < 100; i++)
		work_note(&w, "sql", i % 2 == 0, 5000);
	work_fade(&w, 0.25);
	(void)work_view(&w, view);
	assert_true(view[0].runs < WORK_RUNS * 0.26);
	assert_true(view[0].succeeded > view[0].runs * 0.4 && view[0].succeeded < view[0].runs * 0.6);
	assert_true(view[0].typical_us > 4999 && view[0].typical_us < 5001);
}

static void
the_kinds_with_most_runs_are_kept(void **state)
{
	struct work w = {0};
	char kind[8];

	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < WORK_KINDS - 1; i++) {
			snprintf(kind, sizeof kind, "k%d", i);
			work_note(&w, kind, true, 1);
		}
	}
	for (int i = 0; i < 20; i++) {
		snprintf(kind, sizeof kind, "r%d", i);
		work_note(&w, kind, true, 1);
	}
	assert_int_equal(w.n, WORK_KINDS);
	for (int i = 0; i < WORK_KINDS - 1; i++) {
		snprintf(kind, sizeof kind, "k%d", i);
		assert_string_equal(w.item[i].kind, kind);
	}
	work_note(&w, "a_name_that_is_longer_than_a_kind_may_be", true, 1);
	assert_int_equal(w.n, WORK_KINDS);
}

static void
what_is_printed_is_read_back(void **state)
{
	struct work w = {0}, back;
	struct pgrab_work a[WORK_KINDS], b[WORK_KINDS];
	struct buf text = {0};

	work_note(&w, "shell", true, 12345);
	work_note(&w, "shell", false, 1);
	work_note(&w, "sql", false, 1);
	work_print(&w, &text);
	assert_string_equal(buf_str(&text), "shell 194 94 100 12345 sql 100 0 0 0");
	work_parse(&back, buf_str(&text));
	assert_int_equal(work_view(&w, a), work_view(&back, b));
	for (size_t i = 0; i < 2; i++) {
		assert_string_equal(a[i].kind, b[i].kind);
		assert_true(a[i].runs - b[i].runs < 0.01 && b[i].runs - a[i].runs < 0.01);
	}
	buf_fini(&text);
}

static void
what_does_not_parse_is_left_out(void **state)
{
	static const struct {
		const char *text;
		size_t n;
	} rows[] = {
	    {NULL, 0},
	    {"", 0},
	    {" ", 0},
	    {"shell", 0},
	    {"shell 1 2 3", 0},
	    {"shell 1 2 3 x", 0},
	    {"shell 1 2 -3 4", 0},
	    {"shell 100 100 100 5", 1},
	    {"shell 100 100 100 5 ", 1},
	    {"shell 100 100 100 5 sql 1 1", 1},
	    {"shell 100 100 100 5 a_name_that_is_longer_than_a_kind_may_be 1 1 1 1", 1},
	    {"a 1 1 1 1 b 1 1 1 1 c 1 1 1 1 d 1 1 1 1 e 1 1 1 1 f 1 1 1 1 g 1 1 1 1 h 1 1 1 1 i 1 1 1 1",
		WORK_KINDS},
	};
	struct work w;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		work_parse(&w, rows[i].text);
		assert_int_equal(w.n, rows[i].n);
	}
}

/* A folder in place of /. */
static char root[] = "/tmp/pgrab-machine-XXXXXX";

static void
put(const char *file, const char *text)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof path, "%s/%s", root, file);
	for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')) != NULL; p++) {
		*p = '\0';
		(void)mkdir(path, 0755);
		*p = '/';
	}
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void
a_machine_says_what_is_free(void **state)
{
	struct machine m;

	put("proc/stat", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1 1 1\n");
	put("proc/meminfo", "MemTotal:  1000 kB\nMemFree:  1 kB\nMemAvailable:  250 kB\n");
	machine_init(&m, root);
	assert_int_equal(machine_cpu_free(&m), -1);
	assert_int_equal(machine_memory_free(&m), -1);
	machine_read(&m, 1000000);
	assert_int_equal(machine_cpu_free(&m), -1);
	assert_int_equal(machine_memory_free(&m), 25);
	put("proc/stat", "cpu  140 0 120 735 105 0 0 0 0 0\n");
	machine_read(&m, 2000000);
	assert_int_equal(machine_cpu_free(&m), 40);
	put("proc/stat", "cpu  240 0 120 735 105 0 0 0 0 0\n");
	machine_read(&m, 3000000);
	assert_int_equal(machine_cpu_free(&m), 30); /* of 0 now a quarter counts */
}

/* Below the limits of its group: 2 CPUs, 1000 bytes. */
static void
a_control_group_allows_less(void **state)
{
	struct machine m;

	put("proc/stat", "cpu  0 0 0 100 0 0 0 0\n");
	put("proc/meminfo", "MemTotal:  1000 kB\nMemAvailable:  900 kB\n");
	put("proc/self/cgroup", "1:cpu:/other\n0::/jobs/pgrab.node\n");
	put("sys/fs/cgroup/jobs/cpu.max", "200000 100000\n");
	put("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 1000000\nuser_usec 5\n");
	put("sys/fs/cgroup/jobs/memory.max", "1000\n");
	put("sys/fs/cgroup/jobs/memory.current", "900\n");
	put("sys/fs/cgroup/jobs/memory.stat", "anon 600\ninactive_file 300\n");
	machine_init(&m, root);
	machine_read(&m, 1000000);
	assert_int_equal(machine_memory_free(&m), 40);
	put("proc/stat", "cpu  0 0 0 200 0 0 0 0\n");
	put("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 2500000\nuser_usec 5\n");
	machine_read(&m, 2000000);
	assert_int_equal(machine_cpu_free(&m), 25); /* 1.5 s of 2 s */
	put("sys/fs/cgroup/jobs/cpu.max", "max 100000\n");
	put("sys/fs/cgroup/jobs/memory.max", "max\n");
	machine_init(&m, root);
	machine_read(&m, 1000000);
	assert_int_equal(machine_memory_free(&m), 90);
}

static void
a_machine_that_cannot_be_read_is_not_known(void **state)
{
	struct machine m;

	machine_init(&m, "/nonexistent");
	machine_read(&m, 1000000);
	machine_read(&m, 2000000);
	assert_int_equal(machine_cpu_free(&m), -1);
	assert_int_equal(machine_memory_free(&m), -1);
}

static int
make_root(void **state)
{
	return mkdtemp(root) == NULL;
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(recent_runs_count_for_more),
	    cmocka_unit_test(a_single_long_run_says_little),
	    cmocka_unit_test(all_fades_alike),
	    cmocka_unit_test(the_kinds_with_most_runs_are_kept),
	    cmocka_unit_test(what_is_printed_is_read_back),
	    cmocka_unit_test(what_does_not_parse_is_left_out),
	    cmocka_unit_test(a_machine_says_what_is_free),
	    cmocka_unit_test(a_control_group_allows_less),
	    cmocka_unit_test(a_machine_that_cannot_be_read_is_not_known),
	};

	return cmocka_run_group_tests(tests, make_root, NULL);
}
