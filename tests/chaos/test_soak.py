"""The soak's verdict can fail; hours of it: scripts/soak."""
import json
import random
import subprocess
from pathlib import Path

import pytest

from pooler import BOUNCER
from soak_judge import MB, growth, plot, verdict

ROOT = Path(__file__).resolve().parents[2]
COUNTS = {"inserted": {"noop": 3}, "ended": {"noop": 3}, "left": {}, "effects": (5, 5), "ticks": [("tick0", 9, 9, 0)]}


def samples(count=200, **grows):
    """One each ten seconds: what is named grows by so much from one to the next, everything is noisy, and a fault now and then is not counted."""
    rng = random.Random(7)

    def value(name, level):
        return [level * rng.uniform(0.95, 1.05) + grows.get(name, 0) * i + (level * 5 if rng.random() < 0.03 else 0) for i in range(count)]

    columns = {("memory", "n2 node"): value("memory", 18 * MB), ("descriptors", "n2 node"): value("descriptors", 20), ("size", "task"): value("size", 7 * MB),
               ("dead", "task"): value("dead", 9000), ("late", "p50"): value("late", 0.03), ("backlog", "due"): value("backlog", 30)}
    return [{"at": 10.0 * i, "values": {kind: {name: points[i]} for (kind, name), points in columns.items()}} for i in range(count)]


def test_what_stays_flat_is_well():
    faults, rows = verdict(samples(), COUNTS)
    assert (faults, len(rows)) == ([], 6)


@pytest.mark.parametrize("what, step", [("memory", MB / 20), ("descriptors", 0.05), ("size", MB / 50), ("dead", 200), ("late", 0.001), ("backlog", 2)])
def test_what_leaks_is_seen(what, step):
    faults, _ = verdict(samples(**{what: step}), COUNTS)
    assert len(faults) == 1 and faults[0].startswith(what) and "grows" in faults[0]


def test_too_few_samples_are_not_judged():
    assert growth(samples(50, memory=MB)) == []


@pytest.mark.parametrize("wrong", [{"ended": {"noop": 2}}, {"ended": {"noop": 4}}, {"ended": {"noop": 3, "x": 1}}, {"left": {"noop": 1}}, {"effects": (5, 6)},
                                   {"ticks": [("tick0", 8, 9, 0)]}, {"ticks": [("tick0", 9, 9, 1)]}])
def test_what_is_lost_or_doubled_is_seen(wrong):
    assert len(verdict([], {**COUNTS, **wrong})[0]) == 1


def test_the_picture_has_a_line_for_each_series():
    picture = plot(samples(), [(500.0, "node kill n0"), (700.0, "server fast")], "a soak")
    assert picture.count("<polyline") == 6 and picture.count("<path") == 2


@pytest.mark.deadline(240)
@pytest.mark.skipif(BOUNCER is None, reason="pgbouncer is not installed (scripts/deps check)")
def test_a_few_seconds_of_it():
    done = subprocess.run([ROOT / "scripts/soak", "--tiny", "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["verdict"] == "ok" and result["tasks"] > 50 and result["fires"] > 20 and sum(result["injected"].values()) > 0
