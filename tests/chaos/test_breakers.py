"""A few seeds of limits that break, and their checker held against histories that are wrong."""
import collections
import datetime

import pytest

from arena import run_seed
from breakers import KEYS, TASKS, BreakerArena, check

SEEDS = [1, 2]

Run = collections.namedtuple("Run", "name outcome ended")
Used = collections.namedtuple("Used", "key no at taken failures until")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
UNTIL = NOON + datetime.timedelta(seconds=10)


def used(*changes):
    """(seconds, taken, failures) of each change; broken until second 10."""
    return [Used("service", no, NOON + datetime.timedelta(seconds=at), taken, failures, UNTIL) for no, (at, taken, failures) in enumerate(changes)]


def runs():
    return [Run(f"{key} {i}", "succeeded", "done") for key in KEYS for i in range(TASKS)]


def faults(h_runs, h_used):
    return sorted({fault.split()[0] for fault in check(h_runs, h_used)})


# Two that ran when it broke end one by one; then one tries, and fails; another one succeeds, and four go on.
GOOD = [(0, 3, 1), (1, 2, 2), (2, 1, 3), (3, 0, 4), (11, 1, 4), (12, 0, 5), (22, 1, 5), (23, 4, 0)]


def test_a_good_history_has_no_fault():
    assert faults(runs(), used(*GOOD)) == []


@pytest.mark.parametrize("what, h_runs, h_used", [
    ("I1 lost", runs()[1:], used(*GOOD)),
    ("I1 twice", runs() + runs()[:1], used(*GOOD)),
    ("I20 two try", runs(), used(*GOOD[:5], (12, 2, 4))),
    ("I20 two at once", runs(), used(*GOOD[:4], (11, 2, 4))),
    ("I20 too early", runs(), used(*GOOD[:4], (9, 1, 4))),
    ("harness: not tried", runs(), used((0, 1, 0), (1, 0, 1))),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_checker_sees(what, h_runs, h_used):
    assert what.split()[0] in faults(h_runs, h_used)


@pytest.mark.private_server
@pytest.mark.deadline(120)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_violates_nothing(cluster, tmp_path, seed):
    found, counts = run_seed(cluster, seed, str(tmp_path), BreakerArena)
    assert not found, "\n".join(found)
    assert counts["runs"] >= len(KEYS) * TASKS, "the load has run"
