"""A few seeds for every day, and the history checker held against histories that are wrong."""
import collections
import datetime
import random
import subprocess
import sys
from pathlib import Path

import pytest

from arena import run_seed
from check import Begun, History, check
from faults import draw, family
from moves import replay
from when import Window
from waits import Answer, Call, Request, Sent, Waited

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/mutants"))
from mutants import Mutant  # noqa: E402 (its folder is not on the path before)

SEEDS = [1, 2, 5, 9]

Run = collections.namedtuple("Run", "name outcome ended fire_at started_at finished_at attempt incarnation version error output signals",
                             defaults=[None, None, None])
Event = collections.namedtuple("Event", "what tag task fire_at attempt fence pid at")
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)


def at(seconds):
    return NOON + datetime.timedelta(seconds=seconds)


def run(name, begun=0, ended=1, outcome="succeeded", end="done", version=1, fire=0):
    return Run(name, outcome, end, at(fire), at(begun), at(ended), 1, 4, version)


def event(what, name, seconds, version=1):
    return Event(what, name, "1", "f", "1", f"4-{version}", "1", str(at(seconds).timestamp()))


def faults(runs, events, promises, effects=None, parents=None, acks=(), waited=None, windows=()):
    begun = [Begun(r.name, r.started_at.timestamp(), r.started_at.timestamp()) for r in runs]
    found = check(History(runs, events, effects or {}, promises, parents or {}, list(acks), begun, waited, windows))
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


BY_ANN = [{"payload": {"by": "ann"}}]
SENT = [Sent("a", "ann", True, NOON.timestamp() - 1)]
DONE = [Call("a", what, f"1-f-{what}", "1", 0.0) for what in ("pay", "ship")]


def signalled(**changes):
    """A task that was sent a signal, and has begun after that."""
    return {"runs": [run("a")._replace(signals=BY_ANN)], "events": good()[1], "promises": {"a": "once"}, "waited": Waited(sent=SENT), **changes}


def handled(**changes):
    """A handler that has waited between its steps."""
    return {"runs": [run("a", outcome="waited", end=None), run("a", begun=3, ended=4, version=2)._replace(output='"ann"', signals=BY_ANN)], "events": [],
            "promises": {"a": "handler"}, "waited": Waited(sent=SENT, calls=DONE), **changes}


def vain(promise, seconds):
    """One whose signal never comes, that is waited for during two seconds."""
    runs = {"vain": [run("a", ended=2, outcome="timed_out", end=None)],
            "handler": [run("a", ended=1, outcome="waited", end=None), run("a", begun=3, ended=4, version=2)._replace(output='"nobody"')]}
    return {"runs": runs[promise], "events": [], "promises": {"a": promise}, "waited": Waited(never={"a": seconds}, calls=DONE)}


def answered(told=True, output="1.4.x ann", said="1.4.x ann", promise="answer", requests=1, fire="f", **more):
    """A request to which somebody has said something."""
    answers = [Answer("a", "1.4.x", "succeeded", said, told)] + [Answer("a", "1.4.x", "succeeded", text, True) for text in more.get("others", [])]
    sent = [Request("a", "f", "1.4.x", 0.0)] + [Request("a", fire, "2.4.y", 1.0)] * (requests - 1)
    return {"runs": [run("a")._replace(output=output)], "events": [], "promises": {"a": promise}, "waited": Waited(requests=sent, answers=answers)}


def in_batch(ended=2, after=3, output="1 members, 1 succeeded", end="done"):
    runs = [run("m"), run("a", ended=ended, end=end)._replace(output=output), run("after", begun=after - 0.5, ended=after)]
    return {"runs": runs, "events": [], "promises": {"m": "sql", "a": "batch", "after": "batch"}, "effects": {"m": 1}, "waited": Waited(batches={"a": ["m"]})}


def stepped(**effects):
    return {"runs": [run("a")], "events": [], "promises": {"a": "steps"}, "effects": {"a:one": 1, "a:two": 1, "a:three": 1, **effects}}


@pytest.mark.parametrize("h", [signalled(), handled(), vain("vain", 2), vain("handler", 2), answered(), answered(told=None), answered(requests=2),
                               answered(told=False, said="1.4.x bob", others=["1.4.x ann"]), in_batch(), stepped(),
                               handled(runs=[run("a", outcome="preempted", end=None, version=3)] + handled()["runs"],
                                       waited=Waited(sent=SENT, calls=DONE + DONE[:1])),
                               signalled(waited=Waited(sent=[Sent("a", "ann", None, NOON.timestamp() - 1), Sent("a", "bob", False, NOON.timestamp())]))])
def test_a_good_wait_has_no_fault(h):
    assert faults(**h) == []


@pytest.mark.parametrize("what, h", [
    ("I1", answered() | {"runs": []}),
    ("I4", answered(promise="once_answer", requests=2)),
    ("I14 a wait that is not over", vain("vain", 2) | {"runs": []}),
    ("I14 one of a handler", vain("handler", 2) | {"runs": vain("handler", 2)["runs"][:1]}),
    ("I15 a step was left out", stepped(**{"a:two": 0})),
    ("I15 a step was done twice", stepped(**{"a:two": 2})),
    ("I15 although it failed", stepped(**{"a:two": 2}) | {"runs": [run("a", outcome="failed", end=None)]}),
    ("I16 two keys", handled(runs=[run("a", outcome="lost", end=None, version=3)] + handled()["runs"],
                             waited=Waited(sent=SENT, calls=DONE + [DONE[0]._replace(key="other")]))),
    ("I16 again, and nothing died", handled(waited=Waited(sent=SENT, calls=DONE + DONE[:1]))),
    ("I16 again, though one gave way", handled(runs=[run("a", outcome="preempted", end=None, version=3)] + handled()["runs"],
                                               waited=Waited(sent=SENT, calls=DONE + DONE[:1] + DONE[:1]))),
    ("I16 never done", handled(waited=Waited(sent=SENT, calls=DONE[:1]))),
    ("I16 another fire", answered(requests=2, fire="g")),
    ("I17 two signals count", signalled(waited=Waited(sent=SENT + [Sent("a", "bob", True, NOON.timestamp() - 1)]))),
    ("I17 another counts", signalled(waited=Waited(sent=[Sent("a", "bob", True, NOON.timestamp() - 1), Sent("a", "ann", False, NOON.timestamp() - 1)]))),
    ("I17 another counts for a handler", handled(waited=Waited(sent=[Sent("a", "bob", True, 0.0)], calls=DONE))),
    ("I17 two answers were recorded", answered(others=["1.4.x bob"])),
    ("I17 it was told so, and it is not", answered(output="1.4.x bob", others=["1.4.x bob"])),
    ("I17 it was refused, and it is", answered(told=False)),
    ("I17 nobody said so", answered(output="forged", told=None)),
    ("I17 its token is none", answered(told="status 401")),
    ("I18 before its signal", signalled(waited=Waited(sent=[Sent("a", "ann", True, NOON.timestamp() + 1)]))),
    ("I18 early", vain("vain", 2.5)),
    ("I18 a handler goes on early", vain("handler", 2.5)),
    ("I19 before its members", in_batch(ended=0.5)),
    ("I19 not all of them", in_batch(output="1 members, 0 succeeded")),
    ("I19 never", in_batch(end=None)),
    ("I19 what follows came first", in_batch(after=1)),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_checker_sees_of_waits(what, h):
    assert what.split()[0] in faults(**h)


def test_the_same_seed_draws_the_same_faults():
    assert draw(random.Random(7), 8, 3) == draw(random.Random(7), 8, 3) != draw(random.Random(8), 8, 3)


@pytest.mark.private_server
@pytest.mark.deadline(170)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_violates_nothing(cluster, tmp_path, seed):
    found, counts = run_seed(cluster, seed, str(tmp_path))
    assert not found, "\n".join(found)
    assert counts["starts"] > 60, "the load has run"
    assert counts["moves"] > 200, "and has been followed"


def test_each_mutant_finds_its_guard():
    """A guard that has moved would leave scripts/mutants with a program that is whole."""
    for path in sorted(p for p in (ROOT / "tests/mutants").iterdir() if not p.suffix and p.is_file()):
        for name, script in Mutant(path).edits:
            text = (ROOT / name).read_text(encoding="utf-8")
            done = subprocess.run(["sed", script, ROOT / name], check=True, capture_output=True, text=True)
            assert done.stdout != text, f"{path.name}: sed changes nothing in {name}"


def test_the_checker_sees_what_became_of_the_past():
    runs = [run("past", version=n)._replace(fire_at=NOON + datetime.timedelta(hours=n)) for n in range(12)]
    told = [run("alert: cluster"), run("alert: digest digest")]
    promises = {"past": "past"}
    assert faults(runs + told, [], promises, effects={"past": 12}) == []
    assert faults(runs + told, [], promises, effects={"past": 13}) == ["I22", "I6"]
    assert faults(runs[1:] + told, [], promises, effects={"past": 11}) == ["I22"]
    assert faults(runs + runs[:1] + told, [], promises, effects={"past": 12}) == ["I22", "I6"]
    assert faults(runs + told[:1], [], promises, effects={"past": 12}) == ["I23"]


def test_the_checker_sees_a_start_in_a_window():
    runs, events = good("dark1")
    promises, noon = {"dark1": "once"}, NOON.timestamp()
    assert faults(runs, events, promises, windows=[Window(noon - 9, noon - 1), Window(noon + 0.1, noon + 9)]) == []
    assert faults(runs, events, promises, windows=[Window(noon - 1, noon + 1)]) == ["I21"]


def logged(what, **columns):
    """A line as the log is decoded to; args must not be taken for columns."""
    columns = {"id": 7, "version": 1, "args": "'{\"a\": \"it''s status[text]:\"}'", "status": "'scheduled'", "attempt": 0, "max_attempts": 2, "incarnation": "null", **columns}
    return f"table pgrab.task: {what}: " + " ".join(f"{name}[text]:{value}" for name, value in columns.items())


CLAIMED = {"version": 2, "status": "'claimed'", "incarnation": 5}
RUNNING = {"version": 2, "status": "'running'", "incarnation": 5, "attempt": 1}


@pytest.mark.parametrize("fault, changes", [
    (None, [CLAIMED, RUNNING, {"version": 3, "attempt": 1}, {"version": 4, "status": "'running'", "incarnation": 6, "attempt": 2}]),
    ("no move of the table", [CLAIMED, {"version": 3, "status": "'done'"}]),
    ("version 1 stayed", [{**CLAIMED, "version": 1}]),
    ("version 2 became 1", [CLAIMED, {}]),
    ("incarnation 5 became 6", [CLAIMED, {**RUNNING, "incarnation": 6}]),
    ("incarnation is None", [{**CLAIMED, "incarnation": "null"}]),
    ("incarnation is 5", [CLAIMED, {"version": 3, "incarnation": 5}]),
    ("attempt 0 became 0", [CLAIMED, {**RUNNING, "attempt": 0}]),
    ("attempt 3 of 2", [{"attempt": 2}, {**RUNNING, "attempt": 3}]),
], ids=lambda value: value if isinstance(value, str) else "")
def test_the_checker_sees_a_move_that_the_model_does_not_have(fault, changes):
    table = {("scheduled", "claimed"), ("scheduled", "running"), ("claimed", "running"), ("claimed", "scheduled"), ("running", "scheduled")}
    lines = ["BEGIN 1", logged("INSERT"), *(logged("UPDATE", **c) for c in changes), logged("DELETE")]
    tasks = {}
    found = [f.rsplit(": ", 1)[1] for f in replay(lines, table, tasks, collections.Counter())]
    assert (fault in found if fault else found == []) and not tasks


def test_the_faults_find_all_processes_of_a_node(db, nodes, probe):
    """Else they would hurt nobody but nodes, and every seed would pass."""
    node = nodes.start("n0")
    db.add(**probe.shell("t", seconds=60))
    probe.wait("start", "t")
    assert {role: len(pids) for role, pids in family(node).items()} == {"node": 1, "keeper": 1, "shim": 1, "child": 1}
