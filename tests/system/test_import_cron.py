"""pgrab import crontab beside cron: a line fires when cron fired it, or the difference is said."""
import pytest
from test_import import apply, checker, crontab, imported  # noqa: F401

STEPS = {"*/100 * * * *": "*/60 * * * *", "0 */25 * * *": "0 */24 * * *", "0 0 */99999999999999999999 * *": "0 0 */31 * *", "10-20/61,5 * * * *": "10-20/60,5 * * * *",
         "0 0 1 */13 *": "0 0 1 */12 *", "0 0 * * 1-7/8": "0 0 * * 1-7/7", "0 0 */10 * */7": "0 0 */10 * */7"}


@pytest.mark.parametrize("fields", STEPS)
def test_a_step_longer_than_its_field_is_its_first_value(db, tmp_path, fields):
    """cron counts from the first by the step, and stops behind the last."""
    tasks, said = imported("crontab", crontab(tmp_path, f"{fields} a\n"))
    assert tasks["a"]["schedule"] == STEPS[fields] and "line 1" not in said
    apply(db, "crontab", tmp_path / "crontab")


def test_the_flags_of_bsd_are_no_command(tmp_path):
    path = crontab(tmp_path, "0 1 * * * -n a\n0 1 * * * -q -n b x\n0 1 * * * -qn\tc -n\n0 1 * * * -x d\n0 1 * * * -ne\n")
    tasks, said = imported("crontab", path)
    assert [t["command"] for t in tasks.values()] == ["a", "b x", "c -n", "-x d", "-ne"]
    for n, flags in enumerate(("-n", "-q -n", "-qn"), 1):
        assert f"line {n}: {flags} before its command is dropped" in said
    assert "line 4" not in said and "line 5" not in said
    system = crontab(tmp_path, "0 1 * * * root -q a\n0 1 * * * root -n\n")
    tasks, said = imported("crontab", system, "--system", check=False)
    assert [t["command"] for t in tasks.values()] == ["a"] and "line 2 is left out: it is not a crontab line" in said


@pytest.mark.parametrize("fields", ["5/15 * * * *", "0 1,2/4 * * *", "0 0 * * MON/2"])
def test_a_step_after_one_number_is_named(tmp_path, fields):
    tasks, said = imported("crontab", crontab(tmp_path, f"{fields} a\n"))
    assert tasks["a"]["schedule"] == fields
    assert f"line 1: {fields}: a step after one number counts from it to the end of the field, as in FreeBSD" in said


@pytest.mark.parametrize(("fields", "sign"), [("0 0 L * *", "L"), ("? 0 * * *", "?"), ("0 0 1,15w * *", "W"), ("0 0 * * 1#2", "#"), ("0 0 * * friL", "L"), ("0 0 ? JUL WED", "?")])
def test_what_no_cron_takes_is_named(tmp_path, fields, sign):
    tasks, said = imported("crontab", crontab(tmp_path, f"{fields} a\n0 0 1 JUL WED b\n"))
    assert tasks["a"]["schedule"] == fields
    assert f"line 1: {fields}: cron has no {sign}" in said and "line 2" not in said
