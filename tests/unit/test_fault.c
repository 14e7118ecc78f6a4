/*
 * What errors of the server mean.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "db/fault.h"

static void
test_faults_of_the_server_and_the_way_are_waited_for(void **state)
{
	static const char *const states[] = {"", "08006", "53100", "53300", "57014", "57P01", "58030",
	    "XX000", "28P01", "28000", "3D000", "42501", "25006", "55000"};

	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		assert_int_equal(fault_of(states[i]), FAULT_SERVER);
		assert_int_equal(fault_rc(states[i], true), RC_AGAIN);
	}
}

static void
test_what_a_person_mends_is_told_to_whoever_starts_a_node(void **state)
{
	static const char *const persons[] = {"28P01", "28000", "3D000", "42501"};

	for (size_t i = 0; i < sizeof persons / sizeof *persons; i++)
		assert_int_equal(fault_rc(persons[i], false), RC_BAD);
	assert_int_equal(fault_rc("53300", false), RC_AGAIN);
}

static void
test_what_may_be_a_rows_is_never_taken_for_the_servers(void **state)
{
	static const char *const states[] = {
	    "22021", "22P05", "23503", "23514", "P0001", "54000", "44000", "XX001"};

	for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
		assert_int_equal(fault_of(states[i]), FAULT_ROW);
		assert_int_equal(fault_rc(states[i], true), RC_BAD);
	}
}

static void
test_races_locks_and_bugs(void **state)
{
	assert_int_equal(fault_of("40001"), FAULT_RACE);
	assert_int_equal(fault_rc("40P01", true), RC_RACE);
	assert_int_equal(fault_of("55P03"), FAULT_LOCKED);
	assert_int_equal(fault_rc("55P03", true), RC_AGAIN);
	assert_int_equal(fault_of("42883"), FAULT_OURS);
	assert_int_equal(fault_of("42P01"), FAULT_OURS);
	assert_int_equal(fault_rc("42P01", true), RC_BAD);
}

static void
test_a_missing_partition_is_told_from_a_check(void **state)
{
	struct err partition = {.sqlstate = "23514",
	    .place = "ExecFindPartition",
	    .text = "keine Partition von Relation \"run\" für die Zeile gefunden"};
	struct err old_list = {.sqlstate = "23514", .place = "ExecPartitionCheckEmitError"};
	struct err check = {
	    .sqlstate = "23514", .place = "ExecConstraints", .text = "no partition of relation, says a name"};

	assert_true(fault_no_partition(RC_BAD, &partition));
	assert_true(fault_no_partition(RC_BAD, &old_list));
	assert_false(fault_no_partition(RC_BAD, &check));
	assert_false(fault_no_partition(RC_OK, &partition));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_faults_of_the_server_and_the_way_are_waited_for),
	    cmocka_unit_test(test_what_a_person_mends_is_told_to_whoever_starts_a_node),
	    cmocka_unit_test(test_what_may_be_a_rows_is_never_taken_for_the_servers),
	    cmocka_unit_test(test_races_locks_and_bugs),
	    cmocka_unit_test(test_a_missing_partition_is_told_from_a_check),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
