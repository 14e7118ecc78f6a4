"""What scripts/count-tests makes of the results of suites: nothing that did not run counts as passed."""
import subprocess

from cluster import ROOT

JUNIT = """<testsuites><testsuite name="pytest"><testcase classname="tests.system.test_a" name="test_one[x y]"/>
<testcase classname="tests.system.test_a" name="test_two"><skipped message="no browser here"/></testcase>{}</testsuite></testsuites>"""
BROKEN = '<testcase classname="tests.system.test_a" name="test_three"><error message="teardown"/></testcase>'


def count(folder, **files):
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    done = subprocess.run([ROOT / "scripts/count-tests", folder], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_what_passed_and_what_was_skipped(tmp_path):
    status, lines = count(tmp_path, unit_status="0", unit_tap="1..2\nok 1 - a\nok 2 - b\n", system_status="0", system_xml=JUNIT.format(""))
    assert (status, lines[-1]) == (0, "3 passed, 0 failed")
    assert "skipped: tests/system/test_a.py::test_two: no browser here" in lines


def test_a_suite_in_which_nothing_ran_has_failed(tmp_path):
    status, lines = count(tmp_path, unit_status="0", sql_status="0", sql_tap="1..1\nok 1 - a\n")
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")
    assert "failed: unit: no test ran" in lines


def test_the_error_of_a_teardown_and_a_broken_plan_count(tmp_path):
    status, lines = count(tmp_path, system_status="1", system_xml=JUNIT.format(BROKEN), sql_status="0", sql_tap="1..2\nok 1 - a\n")
    assert (status, lines[-1]) == (1, "2 passed, 2 failed")
    assert "failed: tests/system/test_a.py::test_three" in lines and "failed: sql: 2 tests planned, 1 ran" in lines
