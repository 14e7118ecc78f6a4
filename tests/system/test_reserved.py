"""Reserved nodes (min_priority): they take nothing less important, and nothing less important waits for them."""
import pytest
from cluster import run_pgrab, wait_until

# Nothing is stolen, and nobody looks by himself before long: a shard that nobody owns would be seen.
SLOW = {"steal_after": "60s", "lookahead": "1s"}


def ran(db, ids):
    return dict(db.query("select node, count(*) from pgrab.run where task_id = any (%s) and outcome = 'succeeded' group by 1", ids))


def add(db, n, priority, **columns):
    names = "".join(f", {c}" for c in columns)
    values = "".join(", %s" for _ in columns)
    rows = db.query(f"insert into pgrab.task (kind, priority{names}) select 'noop', %s{values} from generate_series(1, %s) returning id",
                    priority, *columns.values(), n)
    return [r.id for r in rows]


def both_up(db):
    db.wait("select count(*) = 2 from pgrab.nodes where shards between 1 and 1023", timeout=15)


@pytest.mark.parametrize("strategy", ["id_hash", "least_count", "rendezvous", "adaptive"])
def test_low_work_is_taken_at_once_by_the_others_and_high_work_by_all(db, nodes, strategy):
    nodes.start("any", strategy=strategy, **SLOW)
    nodes.start("kept", strategy=strategy, min_priority="10", **SLOW)
    both_up(db)
    low = add(db, 500, 9) + add(db, 500, 0, run_at="2001-01-01") + add(db, 500, -5)
    wait_until(lambda: ran(db, low) == {"any": 1500}, 10, "the work that is not for the reserved node")
    high = add(db, 500, 10) + add(db, 500, 200)
    wait_until(lambda: sum(ran(db, high).values()) == 1000, 10, "the work that is")
    assert min(ran(db, high).get(name, 0) for name in ("any", "kept")) > 100, ran(db, high)


def test_what_is_started_alone_takes_the_low_work_when_it_is_no_longer_reserved(db, nodes):
    kept = nodes.start("kept", min_priority="1", **SLOW)
    task = db.add(kind="noop", run_at="2001-01-01")  # however long it has waited
    assert db.wait_run(db.add(kind="noop", priority=1)).node == "kept"
    db.wait("select why is not null from pgrab.late")
    assert db.one("select why from pgrab.late") == "all nodes that could run it take only priority >= 1"
    gates = {g.gate: (g.verdict, g.detail) for g in db.query("select * from pgrab.explain(%s)", task)}
    assert gates["node kept"] == ("blocked", "It takes only tasks of priority 1 and above (its min_priority).")
    assert gates["nodes"] == ("blocked", "All nodes that are up and could run it take only tasks of priority 1 and above (min_priority), "
                                         "and this one has 0. Start one without, or raise its priority.")
    doctor = run_pgrab("doctor", dsn=db.dsn, check=False).stdout
    assert "no live node runs kind noop with labels {} and priority 0, and 1 tasks wait for one" in doctor, doctor
    assert db.one("select node from pgrab.forecast('1 hour')") == "(no node can)"
    kept.end()
    nodes.start("kept", **SLOW)
    assert db.wait_run(task).node == "kept"


def test_a_priority_that_is_raised_is_taken(db, nodes):
    nodes.start("kept", min_priority="100", **SLOW)
    task = db.add(kind="noop", priority=99)
    db.wait("select why = 'all nodes that could run it take only priority >= 100' from pgrab.late")
    db.query("update pgrab.task set priority = 100 where id = %s", task)
    assert db.wait_run(task).node == "kept"


def test_it_begins_where_a_band_begins(db):
    done = run_pgrab("run", "--min-priority", "5", dsn=db.dsn, check=False)
    assert done.returncode == 2 and "min_priority" in done.stderr and "10" in done.stderr, done.stderr
