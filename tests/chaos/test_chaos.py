"""A few seeds for every day, and the history checker held against histories that are wrong."""
import collections
import datetime
import random
import subprocess
import sys
from pathlib import Path

import pytest

from arena import run_seed
from check import History, check
from faults import draw

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/mutants"))
from mutants import Mutant  # noqa: E402 (its folder is not on the path before)

SEEDS = [1, 2, 5, 9]

Run = collections.namedtuple("Run", "name outcome ended fire_at started_at finished_at attempt incarnation version error",
                             defaults=[None])
Event = collections.namedtuple("Event", "what tag task fire_at attempt fence pid at")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)


def at(seconds):
    return NOON + datetime.timedelta(seconds=seconds)


def run(name, begun=0, ended=1, outcome="succeeded", end="done", version=1, fire=0):
    return Run(name, outcome, end, at(fire), at(begun), at(ended), 1, 4, version)


def event(what, name, seconds, version=1):
    return Event(what, name, "1", "f", "1", f"4-{version}", "1", str(at(seconds).timestamp()))


def faults(runs, events, promises, effects=None, parents=None, acks=()):
    begun = [(r.name, r.started_at.timestamp()) for r in runs]
    found = check(History(runs, events, effects or {}, promises, parents or {}, list(acks), begun))
    return sorted({f.split()[0] for f in found})


def good(name="a"):
    return [run(name)], [event("start", name, 0), event("end", name, 1)]


def again(error):
    """Its first attempt was lost with its process, and the second is its last."""
    return ([run("a", outcome="lost", end=None)._replace(error=error), run("a", version=2)._replace(attempt=2)],
            good()[1] + [event("start", "a", 2, 2), event("end", "a", 3, 2)])


@pytest.mark.parametrize("runs, events", [
    good(),
    again("its process ended: stopped because the node lost its lease"),
    again("its process was killed: its keeper was lost"),
    again("its process ended: exit code 3"),  # alone in it; its node had no lease when it learned that
], ids=["plain", "lease", "keeper", "alone"])
def test_a_good_history_has_no_fault(runs, events):
    assert faults(runs, events, {"a": "once"}) == []


@pytest.mark.parametrize("what, runs, events, more", [
    ("I1", [], [], {"promises": {"a": "once"}}),
    ("I1", [run("a"), run("a", version=2)], good()[1], {"promises": {"a": "link"}}),
    ("I1", [run("a")], [event("start", "a", 0)], {"promises": {"a": "once"}}),
    ("I2", [run("a", end=None), run("a", end=None, fire=2)], [event("end", "a", 1)], {"promises": {"a": "grid"}}),
    ("I2", [run("a", end=None), run("a", end=None, version=2)], [event("end", "a", 1)], {"promises": {"a": "grid"}}),
    ("I3", good()[0], good()[1] + [event("overlap", "a", 0)], {"promises": {"a": "once"}}),
    ("I4", [run("a"), run("a", outcome="lost", end=None, version=2)], good()[1] + [event("start", "a", 2, 2)], {"promises": {"a": "amo"}}),
    ("I6", [run("a")], [], {"promises": {"a": "sql"}, "effects": {"a": 2}}),
    ("I6", [run("a", end=None), run("a", version=2)], [], {"promises": {"a": "sql"}, "effects": {"a": 2}}),
    ("I7", good()[0], good()[1] + [event("start", "a", 2)], {"promises": {"a": "once"}}),
    ("I8", good()[0], good()[1] + [event("start", "a", 2, 7)], {"promises": {"a": "once"}}),
    ("I8", [run("a", begun=5, ended=6)], good()[1], {"promises": {"a": "once"}, "acks": [("a", "cancel", at(4).timestamp())]}),
    ("I8", [run("a", begun=5, ended=6)], good()[1],
     {"promises": {"a": "once"}, "acks": [(None, "pause_all", at(4).timestamp()), (None, "resume_all", at(6).timestamp())]}),
    ("I9", [run("a", ended=3), run("b", begun=1)], good()[1] + [event("start", "b", 1), event("end", "b", 2)],
     {"promises": {"a": "link", "b": "link"}, "parents": {"b": ["a"]}}),
    ("I12", [run(n, outcome="failed", end=None)._replace(error="its process ended: exit code 3") for n in "ab"],
     [event("start", n, 0) for n in "ab"], {"promises": {}}),
    ("I12", *again("its process ended, and which of its 2 tasks did that is not known: why"), {"promises": {"a": "once"}}),
    ("I12", *again("its process was killed: task 7 in it would not stop"), {"promises": {"a": "once"}}),
    ("limit", [run(n) for n in "abc"], [e for n in "abc" for e in good(n)[1]], {"promises": {n: "limited" for n in "abc"}}),
])
def test_the_checker_sees(what, runs, events, more):
    assert what in faults(runs, events, **more)


def test_the_same_seed_draws_the_same_faults():
    assert draw(random.Random(7), 8, 3) == draw(random.Random(7), 8, 3) != draw(random.Random(8), 8, 3)


@pytest.mark.private_server
@pytest.mark.deadline(170)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_violates_nothing(cluster, tmp_path, seed):
    found, counts = run_seed(cluster, seed, str(tmp_path))
    assert not found, "\n".join(found)
    assert counts["starts"] > 60, "the load has run"


def test_each_mutant_finds_its_guard():
    """A guard that has moved would leave scripts/mutants with a program that is whole."""
    for path in sorted(p for p in (ROOT / "tests/mutants").iterdir() if not p.suffix and p.is_file()):
        for name, script in Mutant(path).edits:
            text = (ROOT / name).read_text(encoding="utf-8")
            done = subprocess.run(["sed", script, ROOT / name], check=True, capture_output=True, text=True)
            assert done.stdout != text, f"{path.name}: sed changes nothing in {name}"
